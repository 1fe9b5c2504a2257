// A controller in C++ at the loop's end of the datagrams: it holds all joints of a machine at given angles.
//
//     idcontrol loop --header > idcontrol_wire.h
//     c++ -std=c++17 -O2 -I. -o controller controller.cpp
//     ./controller ROBOT JOINTS FEET Q,Q,... SECONDS OWN_PORT MACHINE_PORT
//
// The machine's drives track positions, which this program sends a thousand times a second. In the first second the
// positions move from the initial positions to the given angles. FEET is the number of feet with force sensors; with
// any, the machine has a floating base. The program tells the machine to brake if the machine is silent for 20 ms, or
// brakes or stops by itself. Replace `command`.
#include <arpa/inet.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "idcontrol_wire.h"

namespace {

using Clock = std::chrono::steady_clock;
using Numbers = std::vector<double>;

constexpr double KP = 20.0, KD = 2.0;  // of every joint [N m/rad, N m s/rad]
constexpr double MOVING = 1.0;  // time in which the goal is reached [s]
constexpr int FAREWELL = 20, BRAKING = 200, PATIENCE = 20;  // ticks
constexpr auto PERIOD = std::chrono::milliseconds(1);

int64_t now_ns() { return std::chrono::nanoseconds(Clock::now().time_since_epoch()).count(); }

// Drives' commands at time t [s] after the first one: rows of torques, positions, velocities and gains.
Numbers command(const Numbers &begin, const Numbers &goal, double t) {
    const size_t n = goal.size();
    const double share = std::min(1.0, t / MOVING);
    Numbers rows(IDC_ROWS * n, 0.0);
    for (size_t i = 0; i < n; i++) {
        rows[n + i] = begin[i] + share * (goal[i] - begin[i]);
        rows[3 * n + i] = KP;
        rows[4 * n + i] = KD;
    }
    return rows;
}

Numbers numbers(const std::string &text) {
    Numbers found;
    std::stringstream parts(text);
    for (std::string part; std::getline(parts, part, ',');) found.push_back(std::stod(part));
    return found;
}

// Return a socket on loopback between two ports; below 0 if the system grants none.
int open_channel(int own_port, int machine_port) {
    sockaddr_in own{}, machine{};
    own.sin_family = machine.sin_family = AF_INET;
    own.sin_port = htons(static_cast<uint16_t>(own_port));
    machine.sin_port = htons(static_cast<uint16_t>(machine_port));
    own.sin_addr.s_addr = machine.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const int channel = socket(AF_INET, SOCK_DGRAM, 0);
    if (channel < 0 || bind(channel, reinterpret_cast<sockaddr *>(&own), sizeof own) != 0 ||
        connect(channel, reinterpret_cast<sockaddr *>(&machine), sizeof machine) != 0 ||
        fcntl(channel, F_SETFL, O_NONBLOCK) != 0)
        return -1;
    return channel;
}

}  // namespace

int main(int argc, char **argv) {
    if (argc != 8) {
        std::fprintf(stderr, "usage: controller ROBOT JOINTS FEET Q,Q,... SECONDS OWN_PORT MACHINE_PORT\n");
        return 2;
    }
    const uint32_t joints = static_cast<uint32_t>(std::atoi(argv[2])), feet = static_cast<uint32_t>(std::atoi(argv[3]));
    const uint32_t base_q = feet > 0 ? 7 : 0, base_v = feet > 0 ? 6 : 0;
    const Numbers goal = numbers(argv[4]);
    const int ticks = static_cast<int>(1000.0 * std::atof(argv[5]));
    if (joints == 0 || goal.size() != joints) {
        std::fprintf(stderr, "there must be one angle for each joint\n");
        return 2;
    }
    const int channel = open_channel(std::atoi(argv[6]), std::atoi(argv[7]));
    if (channel < 0) {
        std::perror("UDP");
        return 3;
    }

    const idc_machine machine{base_q + joints, base_v + joints, joints, feet, feet > 0};
    const idc_state_layout at = idc_state_layout_of(&machine);
    Numbers low(at.count), high(at.count), state(at.count), heard(at.count), begin(joints);
    idc_state_range(&machine, low.data(), high.data());
    idc_inbox inbox{};
    inbox.kind = IDC_STATE, inbox.robot = idc_number(argv[1]), inbox.count = at.count;
    inbox.low = low.data(), inbox.high = high.data();
    idc_outbox outbox{};
    outbox.kind = IDC_COMMAND, outbox.robot = inbox.robot, outbox.session = static_cast<uint32_t>(getpid());

    std::array<unsigned char, 65536> data{};
    idc_head newest{}, head{};
    idc_mode mode = IDC_IDLE;
    int silent = 0, running = 0, braking = 0, farewell = 0;
    bool complete = false;
    double off = 0.0;
    auto due = Clock::now();
    while (farewell < FAREWELL) {
        std::this_thread::sleep_until(due += PERIOD);
        silent++;
        for (ssize_t got; (got = recv(channel, data.data(), data.size(), 0)) >= 0;)
            if (idc_accept(&inbox, data.data(), static_cast<size_t>(got), &head, heard.data()) == IDC_TAKEN)
                newest = head, state = heard, silent = 0;

        const double *q = state.data() + at.q + base_q;
        if (mode == IDC_IDLE && inbox.known) mode = IDC_READY;
        if (mode == IDC_READY && newest.mode == IDC_READY && newest.echo > 0) {
            std::copy(q, q + joints, begin.begin());
            mode = IDC_RUNNING;
        }
        Numbers rows(IDC_ROWS * joints, 0.0);
        if (mode == IDC_RUNNING) {
            rows = command(begin, goal, 1e-3 * running);
            complete = ++running > ticks;
            if (complete || silent > PATIENCE || newest.mode >= IDC_DAMPED) {
                mode = IDC_DAMPED;
                for (uint32_t i = 0; i < joints; i++) off = std::max(off, std::fabs(q[i] - goal[i]));
            }
        } else if (mode == IDC_DAMPED && ++braking > BRAKING) {
            mode = IDC_STOPPED;
        }
        farewell += mode == IDC_STOPPED;
        const size_t size = idc_seal(&outbox, static_cast<uint16_t>(mode), now_ns(), newest.sequence, rows.data(),
                                     IDC_ROWS * joints, data.data());
        (void)send(channel, data.data(), size, 0);  // what is lost is what the machine's patience is for
    }
    close(channel);
    std::printf("%s after %d ticks, %.4f rad off the goal\n", complete ? "complete" : "braked", running, off);
    return complete ? 0 : 1;
}
