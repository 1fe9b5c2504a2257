// A ros2_control controller whose efforts come from `idcontrol loop --peer FILE` on the same computer (Jazzy or later).
//
// It claims position, velocity and effort of each joint and, for a robot with feet, orientation, angular velocity and
// linear acceleration of an IMU in the base. It commands efforts. Drives must not add gains of their own.
#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

#include "controller_interface/controller_interface.hpp"
#include "core.hpp"
#include "pluginlib/class_list_macros.hpp"

namespace idcontrol {

using controller_interface::CallbackReturn;
using controller_interface::InterfaceConfiguration;
using controller_interface::return_type;

class Controller : public controller_interface::ControllerInterface {
   public:
    CallbackReturn on_init() override {
        auto_declare<std::string>("robot", "");
        auto_declare<std::vector<std::string>>("joints", {});
        auto_declare<std::vector<double>>("torque_limits", {});
        auto_declare<std::string>("imu", "");
        auto_declare<int64_t>("feet", 0);
        auto_declare<double>("braking_damping", 1.0);
        auto_declare<int64_t>("patience_ms", 20);
        auto_declare<std::string>("memory", "/dev/shm/idcontrol");
        auto_declare<int64_t>("wait_us", 500);
        return CallbackReturn::SUCCESS;
    }

    CallbackReturn on_configure(const rclcpp_lifecycle::State &) override {
        const auto node = get_node();
        robot_.name = node->get_parameter("robot").as_string();
        robot_.joints = node->get_parameter("joints").as_string_array();
        robot_.limit = node->get_parameter("torque_limits").as_double_array();
        robot_.feet = static_cast<uint32_t>(node->get_parameter("feet").as_int());
        robot_.damping = node->get_parameter("braking_damping").as_double();
        robot_.patience_ns = 1000000 * node->get_parameter("patience_ms").as_int();
        imu_ = node->get_parameter("imu").as_string();
        memory_ = node->get_parameter("memory").as_string();
        wait_ns_ = 1000 * node->get_parameter("wait_us").as_int();
        const size_t n = robot_.joints.size();
        sensors_.q.assign(n, 0.0), sensors_.v.assign(n, 0.0), sensors_.tau.assign(n, 0.0);
        return CallbackReturn::SUCCESS;
    }

    InterfaceConfiguration command_interface_configuration() const override {
        return {controller_interface::interface_configuration_type::INDIVIDUAL, names({"effort"})};
    }

    InterfaceConfiguration state_interface_configuration() const override {
        auto all = names({"position", "velocity", "effort"});
        if (robot_.feet > 0)
            for (const char *part : {"orientation.x", "orientation.y", "orientation.z", "orientation.w",
                                     "angular_velocity.x", "angular_velocity.y", "angular_velocity.z",
                                     "linear_acceleration.x", "linear_acceleration.y", "linear_acceleration.z"})
                all.push_back(imu_ + "/" + part);
        return {controller_interface::interface_configuration_type::INDIVIDUAL, all};
    }

    CallbackReturn on_activate(const rclcpp_lifecycle::State &) override {
        begun_ = false;
        try {
            core_ = std::make_unique<Core>(robot_, memory_);
        } catch (const std::exception &error) {
            RCLCPP_ERROR(get_node()->get_logger(), "%s", error.what());
            return CallbackReturn::ERROR;
        }
        return CallbackReturn::SUCCESS;
    }

    // The interfaces are in the order in which they were claimed.
    return_type update(const rclcpp::Time &time, const rclcpp::Duration &) override {
        if (!begun_) begin_s_ = time.seconds(), begun_ = true;
        sensors_.t = time.seconds() - begin_s_;
        size_t at = 0;
        for (Numbers *part : {&sensors_.q, &sensors_.v, &sensors_.tau}) take(*part, at);
        if (robot_.feet > 0)
            for (Numbers *part : {&sensors_.orientation, &sensors_.gyroscope, &sensors_.accelerometer}) take(*part, at);
        write(core_->update(sensors_, wait_ns_));
        return return_type::OK;
    }

    CallbackReturn on_deactivate(const rclcpp_lifecycle::State &) override {
        write(Numbers(command_interfaces_.size()));
        core_.reset();
        return CallbackReturn::SUCCESS;
    }

   private:
    std::vector<std::string> names(std::initializer_list<const char *> parts) const {
        std::vector<std::string> all;
        for (const char *part : parts)
            for (const std::string &joint : robot_.joints) all.push_back(joint + "/" + part);
        return all;
    }

    // An interface that another thread has locked keeps its last value: an error would end the torques of all joints.
    void take(Numbers &part, size_t &at) {
        for (double &value : part) value = state_interfaces_[at++].get_optional().value_or(value);
    }

    void write(const Numbers &effort) {
        for (size_t i = 0; i < effort.size(); i++) (void)command_interfaces_[i].set_value(effort[i]);
    }

    Robot robot_;
    Sensors sensors_;
    std::string imu_, memory_;
    int64_t wait_ns_ = 0;
    double begin_s_ = 0.0;
    bool begun_ = false;
    std::unique_ptr<Core> core_;
};

}  // namespace idcontrol

PLUGINLIB_EXPORT_CLASS(idcontrol::Controller, controller_interface::ControllerInterface)
