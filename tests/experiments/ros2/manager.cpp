// A controller manager without ROS: joints of 0.1 kg m² that turn freely, and the loop read, update, write.
//
//     manager ROBOT JOINT,JOINT,... FEET MEMORY HZ PATIENCE_MS [Q,Q,...]
//
// It ends once efforts have flowed and then stopped for 0.2 s, or after two minutes. It prints the largest speed at its end [rad/s], and the
// times that `update` took while efforts flowed [us].
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <sstream>
#include <thread>

#include "controller.cpp"

static std::vector<std::string> split(const char *text) {
    std::vector<std::string> all;
    std::stringstream parts(text);
    for (std::string part; std::getline(parts, part, ',');) all.push_back(part);
    return all;
}

int main(int argc, char **argv) {
    const double INERTIA = 0.1, h = 1.0 / std::atof(argv[5]);
    const int rest = static_cast<int>(0.2 / h);
    const auto joints = split(argv[2]);
    const auto controller = make_controller();
    auto &parameters = controller->get_node()->parameters;
    parameters["robot"] = {std::string(argv[1])};
    parameters["joints"] = {joints};
    parameters["torque_limits"] = {std::vector<double>(joints.size(), 40.0)};
    parameters["imu"] = {std::string("imu")};
    parameters["feet"] = {int64_t{std::atoi(argv[3])}};
    parameters["memory"] = {std::string(argv[4])};
    parameters["patience_ms"] = {int64_t{std::atoi(argv[6])}};
    const rclcpp_lifecycle::State state;
    controller->on_init();
    controller->on_configure(state);
    std::map<std::string, double> handles;
    std::vector<hardware_interface::LoanedCommandInterface> commands;
    std::vector<hardware_interface::LoanedStateInterface> states;
    for (const auto &name : controller->command_interface_configuration().names) commands.push_back({&handles["command " + name]});
    for (const auto &name : controller->state_interface_configuration().names) states.push_back({&handles[name]});
    controller->assign_interfaces(std::move(commands), std::move(states));
    handles["imu/orientation.w"] = 1.0, handles["imu/linear_acceleration.z"] = 9.81;
    if (controller->on_activate(state) != controller_interface::CallbackReturn::SUCCESS) return 3;

    if (argc > 7) {
        const auto begin = split(argv[7]);
        for (size_t i = 0; i < joints.size(); i++) handles[joints[i] + "/position"] = std::atof(begin[i].c_str());
    }
    std::vector<double> times;
    int tick = 0, still = 0;
    double largest = 0.0;
    auto due = std::chrono::steady_clock::now();
    for (; tick * h < 120.0 && (largest == 0.0 || still < rest); tick++) {
        std::this_thread::sleep_until(due += std::chrono::nanoseconds(static_cast<int64_t>(1e9 * h)));
        const auto ns = static_cast<int64_t>(1e9 * h * tick);
        const auto began = std::chrono::steady_clock::now();
        controller->update({ns}, {static_cast<int64_t>(1e9 * h)});
        if (still == 0) times.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count());
        still++;
        for (const auto &joint : joints) {
            const double effort = handles["command " + joint + "/effort"];
            double &q = handles[joint + "/position"], &v = handles[joint + "/velocity"];
            if (effort != 0.0) still = 0;
            largest = std::fmax(largest, std::fabs(effort));
            handles[joint + "/effort"] = effort;
            v += h * effort / INERTIA, q += h * v;
        }
    }
    controller->on_deactivate(state);
    double speed = 0.0;
    for (const auto &joint : joints) speed = std::fmax(speed, std::fabs(handles[joint + "/velocity"]));
    std::sort(times.begin(), times.end());
    if (times.empty()) return 1;
    std::printf("speed %.6f update %.0f %.0f us (50 %%, 99 %%)\n", speed, 1e6 * times[times.size() / 2],
                1e6 * times[99 * times.size() / 100]);
    return 0;
}
