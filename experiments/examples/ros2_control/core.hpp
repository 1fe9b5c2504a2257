// A robot's end of `idcontrol loop --peer FILE`: a program in C++17 with its own loop gets torques for each state.
//
// `Core::update` sends a state, waits for the command that answers it, and returns the effort of each joint. It follows
// the modes of idcontrol_wire.h: no effort before the loop is armed, damping if the loop ends or falls silent. It polls,
// and does not allocate, sleep or throw. `controller.cpp` calls it in ROS 2.
#ifndef IDCONTROL_CORE_HPP
#define IDCONTROL_CORE_HPP

#define IDC_SHARED
#include <time.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include "idcontrol_wire.h"

namespace idcontrol {

using Numbers = std::vector<double>;

// What the loop knows of the robot. The base floats if there are feet.
struct Robot {
    std::string name;
    std::vector<std::string> joints;  // in the order of all vectors
    Numbers limit;                    // largest torque of each joint [N m]
    uint32_t feet = 0;
    double damping = 1.0;             // of braking joints [N m s/rad]
    int64_t patience_ns = 20000000;   // silence of the loop after which the robot brakes
};

// Measured values. The loop estimates position and velocity of the base, and the forces on the feet.
struct Sensors {
    double t = 0.0;                                  // [s]
    Numbers q, v, tau;                               // of the joints [rad, rad/s, N m]
    Numbers orientation = {0.0, 0.0, 0.0, 1.0};      // quaternion of the base, x y z w
    Numbers gyroscope = Numbers(3), accelerometer = Numbers(3);  // axes of the base [rad/s, m/s²]
};

class Core {
   public:
    static constexpr int64_t STILL_NS = 300000000, MOST_NS = 20000000000;  // rest that ends braking; its longest time
    static constexpr double REST = 0.05;                                  // speed of a joint at rest [rad/s]

    // `file` is the loop's FILE. Throws std::runtime_error if it cannot be mapped or the robot is unusable.
    Core(const Robot &robot, const std::string &file)
        : robot_(robot), n_(static_cast<uint32_t>(robot.joints.size())), floating_(robot.feet > 0 ? 1 : 0) {
        if (n_ == 0 || robot.limit.size() != n_)
            throw std::runtime_error("there must be joints, and one torque limit for each");
        machine_ = {n_ + 7 * floating_, n_ + 6 * floating_, n_, robot.feet, static_cast<int>(floating_)};
        at_ = idc_state_layout_of(&machine_);
        for (Numbers *rows : {&low_, &high_, &command_, &heard_}) rows->resize(IDC_ROWS * n_);
        idc_command_range(n_, robot.limit.data(), low_.data(), high_.data());
        state_.assign(at_.count, 0.0), effort_.assign(n_, 0.0), data_.resize(IDC_LARGEST);
        // drives, supply and joystick are not measured
        std::fill(state_.begin() + at_.drive_error, state_.end(), std::numeric_limits<double>::quiet_NaN());
        std::string names;
        for (const std::string &joint : robot.joints) names += (names.empty() ? "" : ",") + joint;
        state_[at_.joint_order] = idc_number(names.c_str());
        inbox_.kind = IDC_COMMAND, inbox_.robot = idc_number(robot.name.c_str()), inbox_.count = IDC_ROWS * n_;
        inbox_.low = low_.data(), inbox_.high = high_.data();
        outbox_.kind = IDC_STATE, outbox_.robot = inbox_.robot, outbox_.session = static_cast<uint32_t>(now_ns());
        life_.patience_ns = robot.patience_ns, life_.still_ns = STILL_NS, life_.most_ns = MOST_NS, life_.rest = REST;
        if (idc_shared_open(&link_, file.c_str()) != 0) throw std::runtime_error(file + ": " + std::strerror(errno));
    }
    Core(const Core &) = delete;
    Core &operator=(const Core &) = delete;
    ~Core() { munmap(link_.in, 2 * IDC_BOX); }

    // Return the effort of each joint for the next period [N m]. While torques flow, wait for the answer for at most
    // `wait_ns`; an answer that comes later applies in the next period.
    const Numbers &update(const Sensors &now, int64_t wait_ns) {
        const uint64_t before = inbox_.accepted;
        receive();
        double speed = 0.0;
        for (const double v : now.v) speed = std::isnan(v) ? INFINITY : std::fmax(speed, std::fabs(v));
        mode_ = idc_live(&life_, &inbox_, head_.mode, inbox_.accepted != before, speed, now_ns());
        const int64_t sent = send(now);
        while (mode_ == IDC_RUNNING && head_.echo < outbox_.sequence && now_ns() - sent < wait_ns) receive();
        for (uint32_t i = 0; i < n_; i++) {
            const double *c = command_.data() + i;
            double effort = 0.0;
            if (mode_ == IDC_RUNNING)
                effort = c[0] + c[3 * n_] * (c[n_] - now.q[i]) + c[4 * n_] * (c[2 * n_] - now.v[i]);
            else if (mode_ == IDC_DAMPED)
                effort = -robot_.damping * now.v[i];
            effort_[i] = std::isfinite(effort) ? std::clamp(effort, -robot_.limit[i], robot_.limit[i]) : 0.0;
        }
        return effort_;
    }

    idc_mode mode() const { return mode_; }

   private:
    static int64_t now_ns() {
        timespec t;
        clock_gettime(CLOCK_MONOTONIC, &t);
        return static_cast<int64_t>(t.tv_sec) * 1000000000 + t.tv_nsec;
    }

    void receive() {
        const size_t size = idc_shared_receive(&link_, data_.data());
        idc_head head{};
        if (size == 0 || idc_accept(&inbox_, data_.data(), size, &head, heard_.data()) != IDC_TAKEN) return;
        head_ = head;
        std::copy(heard_.begin(), heard_.end(), command_.begin());
    }

    int64_t send(const Sensors &now) {
        state_[at_.t] = now.t;
        if (floating_) {
            std::copy(now.orientation.begin(), now.orientation.end(), state_.begin() + at_.q + 3);
            std::copy(now.gyroscope.begin(), now.gyroscope.end(), state_.begin() + at_.v + 3);
        }
        std::copy(now.q.begin(), now.q.end(), state_.begin() + at_.q + 7 * floating_);
        std::copy(now.v.begin(), now.v.end(), state_.begin() + at_.v + 6 * floating_);
        std::copy(now.tau.begin(), now.tau.end(), state_.begin() + at_.tau);
        std::copy(now.accelerometer.begin(), now.accelerometer.end(), state_.begin() + at_.accelerometer);
        const int64_t stamp = now_ns();
        const uint64_t echo = inbox_.known ? head_.sequence : 0;
        const auto mode = static_cast<uint16_t>(mode_);
        const size_t size = idc_seal(&outbox_, mode, stamp, echo, state_.data(), at_.count, data_.data());
        idc_shared_send(&link_, data_.data(), size);
        return stamp;
    }

    const Robot robot_;
    const uint32_t n_, floating_;
    idc_machine machine_{};
    idc_state_layout at_{};
    Numbers low_, high_, command_, heard_, state_, effort_;
    std::vector<unsigned char> data_;
    idc_inbox inbox_{};
    idc_outbox outbox_{};
    idc_head head_{};
    idc_life life_{};
    idc_shared link_{};
    idc_mode mode_ = IDC_IDLE;
};

}  // namespace idcontrol
#endif
