// What experiments/examples/ros2_control needs of ROS 2, with the names and signatures of Jazzy, for tests without ROS.
#pragma once
#include <cstdint>
#include <cstdio>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#define RCLCPP_ERROR(logger, ...) ((void)(logger), std::fprintf(stderr, __VA_ARGS__))

namespace rclcpp {
struct Logger {};
struct Time {
    int64_t ns;
    double seconds() const { return 1e-9 * static_cast<double>(ns); }
};
struct Duration {
    int64_t ns;
};
struct Parameter {
    std::variant<std::string, std::vector<std::string>, std::vector<double>, int64_t, double> value;
    const std::string &as_string() const { return std::get<std::string>(value); }
    const std::vector<std::string> &as_string_array() const { return std::get<std::vector<std::string>>(value); }
    const std::vector<double> &as_double_array() const { return std::get<std::vector<double>>(value); }
    int64_t as_int() const { return std::get<int64_t>(value); }
    double as_double() const { return std::get<double>(value); }
};
}  // namespace rclcpp

namespace rclcpp_lifecycle {
struct State {};
struct LifecycleNode {
    std::map<std::string, rclcpp::Parameter> parameters;
    const rclcpp::Parameter &get_parameter(const std::string &name) const { return parameters.at(name); }
    rclcpp::Logger get_logger() const { return {}; }
};
}  // namespace rclcpp_lifecycle

namespace hardware_interface {
struct Loaned {
    double *value;
    template <typename T = double>
    [[nodiscard]] std::optional<T> get_optional(unsigned = 10) const {
        return *value;
    }
    template <typename T>
    [[nodiscard]] bool set_value(const T &now, unsigned = 10) {
        *value = now;
        return true;
    }
};
using LoanedCommandInterface = Loaned;
using LoanedStateInterface = Loaned;
}  // namespace hardware_interface

namespace controller_interface {
enum class CallbackReturn : uint8_t { SUCCESS, FAILURE, ERROR };
enum class return_type : uint8_t { OK, ERROR };
enum class interface_configuration_type : uint8_t { ALL, INDIVIDUAL, NONE };
struct InterfaceConfiguration {
    interface_configuration_type type;
    std::vector<std::string> names;
};

class ControllerInterface {
   public:
    virtual ~ControllerInterface() = default;
    virtual InterfaceConfiguration command_interface_configuration() const = 0;
    virtual InterfaceConfiguration state_interface_configuration() const = 0;
    virtual CallbackReturn on_init() = 0;
    virtual CallbackReturn on_configure(const rclcpp_lifecycle::State &) = 0;
    virtual CallbackReturn on_activate(const rclcpp_lifecycle::State &) = 0;
    virtual CallbackReturn on_deactivate(const rclcpp_lifecycle::State &) = 0;
    virtual return_type update(const rclcpp::Time &, const rclcpp::Duration &) = 0;
    std::shared_ptr<rclcpp_lifecycle::LifecycleNode> get_node() const { return node_; }
    void assign_interfaces(std::vector<hardware_interface::LoanedCommandInterface> &&commands,
                           std::vector<hardware_interface::LoanedStateInterface> &&states) {
        command_interfaces_ = std::move(commands), state_interfaces_ = std::move(states);
    }

   protected:
    template <typename T>
    void auto_declare(const std::string &name, const T &value) {
        node_->parameters.insert({name, rclcpp::Parameter{value}});  // a parameter of the user stays
    }
    std::shared_ptr<rclcpp_lifecycle::LifecycleNode> node_ = std::make_shared<rclcpp_lifecycle::LifecycleNode>();
    std::vector<hardware_interface::LoanedCommandInterface> command_interfaces_;
    std::vector<hardware_interface::LoanedStateInterface> state_interfaces_;
};
}  // namespace controller_interface
