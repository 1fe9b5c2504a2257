/* A machine in C at the other end of `idcontrol loop`: joints of equal inertia that turn freely.
 *
 *     idcontrol loop --header > idcontrol_wire.h
 *     cc -O2 -o machine machine.c -lm
 *     ./machine [-f FEET] [-j NAME,NAME,...] [-q Q,Q,...] [-r HZ] [-p PATIENCE] [-l LIMIT] [-m]
 *               ROBOT JOINTS OWN_PORT LOOP_PORT
 *     ./machine [the same options] -s FILE ROBOT JOINTS
 *
 * It exchanges the datagrams of idcontrol_wire.h with the loop on loopback, in real time if the system permits that (it
 * prints what the system refuses). It behaves like the electronics of a robot:
 *
 * - It applies no torque until the loop commands one, then follows the newest command. Drives close the loop of its gains
 *   every 0.1 ms, within the torque limit; a new command, or the brake, changes their torque no faster than SLEW.
 * - It brakes until it rests if no command has come for PATIENCE (20) of its periods, or if the loop ends.
 * - It is ready again after the operator has recovered the loop.
 * - It sends its state in every period, HZ (1000) times per second.
 *
 * Replace `move` by your drives and sensors.
 *
 * With -f it is a robot on legs that hangs from a hoist: its base stands still, and its FEET feel nothing. Without -f it is
 * an arm. Joints begin at Q, or at zero. With -j it sends the number of the NAMEs of its joints in its order, so that a loop
 * with another order refuses to start. It drops commands beyond LIMIT (40) [N m], or with larger gains than
 * idcontrol_wire.h allows for LIMIT.
 *
 * With -s the loop is on the same computer, and both share the memory of FILE instead of sockets
 * (`idcontrol loop --peer FILE`). With -m it polls for the answer to each state, which occupies a core meanwhile, and
 * prints the times from sending a state to the command that answers it.
 */
#define _POSIX_C_SOURCE 200809L
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define IDC_SHARED
#include "idcontrol_wire.h"

enum { MOST_JOINTS = 64, MOST_FEET = 16, FAREWELL = 20, PRIORITY = 80, MEASURING = 30, LONGEST_US = 20000 };
enum { MOST_VALUES = 1 + 7 + 6 + 5 * MOST_JOINTS + 3 + 6 * MOST_FEET + 9 };

static const double INERTIA = 0.1; /* of every joint [kg m2] */
static double LIMIT = 40.0;        /* of every joint [N m]; -l replaces it */
static const double SLEW = 8e3;    /* fastest change of torque by a new command or the brake [N m/s] */
static const double DRIVE = 1e-4;  /* longest period of the drives [s] */
static const double DAMPING = 1.0; /* of the brake [N m s/rad] */
static const double REST = 0.05;   /* largest speed of a resting joint [rad/s] */
static const int64_t STILL_NS = 300000000;   /* time below REST after which the machine counts as resting [ns] */
static const int64_t BRAKED_NS = 20000000000; /* longest braking [ns] */
static const double HOIST = 1.0;   /* height at which a robot on legs hangs [m] */

struct joint {
    double q, v, tau;
    double fade; /* torque by which the drive still differs from the newest command [N m] */
};

struct machine {
    uint32_t joints, feet; /* no feet: an arm */
    double names;          /* number of the joints' names (idc_number); NaN: unknown */
    struct joint joint[MOST_JOINTS];
    double t;
    enum idc_mode mode; /* of the last motion */
};

static int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* The last message of the loop, and the range of values that the machine accepts. */
struct heard {
    struct idc_inbox inbox;
    struct idc_head head;
    double command[IDC_ROWS * MOST_JOINTS]; /* tau, q, v, kp, kd, one after the other */
    double low[IDC_ROWS * MOST_JOINTS], high[IDC_ROWS * MOST_JOINTS];
};

static void listen_to(struct heard *heard, const unsigned char *data, size_t size) {
    double command[IDC_ROWS * MOST_JOINTS];
    struct idc_head head;
    if (idc_accept(&heard->inbox, data, size, &head, command) != IDC_TAKEN) return;
    heard->head = head;
    memcpy(heard->command, command, 8u * heard->inbox.count);
}

static uint64_t dropped(const struct heard *heard) {
    uint64_t sum = 0;
    for (int why = 0; why < IDC_TAKEN; why++) sum += heard->inbox.dropped[why];
    return sum;
}

/* Write the state of the machine in the order of a state datagram, and return the number of values. */
static uint32_t describe(double *value, const struct machine *m) {
    uint32_t n = 0;
    value[n++] = m->t;
    if (m->feet) {
        const double pose[7] = {0.0, 0.0, HOIST, 0.0, 0.0, 0.0, 1.0}; /* position, then a quaternion that ends with w */
        memcpy(value + n, pose, sizeof pose), n += 7;
    }
    for (uint32_t i = 0; i < m->joints; i++) value[n++] = m->joint[i].q;
    for (int i = 0; m->feet && i < 6; i++) value[n++] = 0.0; /* velocity of the base */
    for (uint32_t i = 0; i < m->joints; i++) value[n++] = m->joint[i].v;
    for (uint32_t i = 0; i < m->joints; i++) value[n++] = m->joint[i].tau;
    for (int i = 0; i < 3; i++) value[n++] = i == 2 && m->feet ? 9.81 : 0.0; /* accelerometer */
    for (uint32_t i = 0; i < 6 * m->feet; i++) value[n++] = 0.0;             /* forces, then normals */
        /* drive errors, temperatures; voltage, emergency stop; joystick (5): NaN, because this machine does not measure them;
     * a zero would report healthy drives and an emergency stop that is not pressed */
    for (uint32_t i = 0; i < 2 * m->joints + 7; i++) value[n++] = NAN;
    value[n++] = m->names;
    value[n++] = NAN; /* checksum of the robot model, which this machine does not have */
    return n;
}

/* Return the torque of a drive under a command: feed-forward plus impedance, within the torque limit. */
static double drive(const struct joint *joint, const double *command, uint32_t joints, uint32_t i) {
    const double *tau = command, *q = tau + joints, *v = q + joints, *kp = v + joints, *kd = kp + joints;
    return fmax(-LIMIT, fmin(LIMIT, tau[i] + kp[i] * (q[i] - joint->q) + kd[i] * (v[i] - joint->v)));
}

/* Follow `command` from now on. The torque starts at the torque of the previous command, and changes no faster than SLEW. */
static void adopt(struct machine *m, const double *before, const double *command) {
    for (uint32_t i = 0; i < m->joints; i++) {
        struct joint *joint = &m->joint[i];
        joint->fade += drive(joint, before, m->joints, i) - drive(joint, command, m->joints, i);
    }
}

static void move(struct machine *m, enum idc_mode mode, const double *command, double dt) {
    const int steps = (int)ceil(dt / DRIVE - 1e-9);
    const double h = dt / steps;
    for (uint32_t i = 0; i < m->joints; i++) {
        struct joint *joint = &m->joint[i];
        for (int k = 0; k < steps; k++) {
            double tau = 0.0;
            if (mode == IDC_RUNNING) tau = drive(joint, command, m->joints, i);
            else if (mode != IDC_STOPPED) tau = -DAMPING * joint->v / (1.0 + h * DAMPING / INERTIA);
            if (k == 0 && mode != m->mode) joint->fade = joint->tau - tau; /* the brake is no faster than SLEW, too */
            if (mode == IDC_STOPPED) joint->fade = 0.0;
            const double fading = joint->fade;
            joint->fade = copysign(fmax(fabs(fading) - SLEW * h, 0.0), fading);
            tau = fmax(-LIMIT, fmin(LIMIT, tau + joint->fade));
            if (k == 0 || fading != 0.0) joint->tau = tau; /* the torque at the start of the period */
            joint->v += h * tau / INERTIA;
            joint->q += h * joint->v;
        }
    }
    m->t += dt;
    m->mode = mode;
}

static double fastest(const struct machine *m) {
    double speed = 0.0;
    for (uint32_t i = 0; i < m->joints; i++) speed = fmax(speed, fabs(m->joint[i].v));
    return speed;
}

/* Return a whole number from `least` to `most`; anything else ends the program. */
static long number(const char *text, const char *what, long least, long most) {
    char *end;
    const long value = strtol(text, &end, 10);
    if (*text == 0 || *end != 0 || value < least || value > most) {
        fprintf(stderr, "%s must be a whole number from %ld to %ld, not %s\n", what, least, most, text);
        exit(2);
    }
    return value;
}

/* Read positions "Q,Q,...", one for each joint; anything else ends the program. */
static void place(struct machine *m, const char *text) {
    for (uint32_t i = 0; i < m->joints; i++) {
        char *end;
        m->joint[i].q = strtod(text, &end);
        if (end == text || *end != (i + 1 < m->joints ? ',' : 0)) {
            fprintf(stderr, "-q must be %u numbers with commas between\n", (unsigned)m->joints);
            exit(2);
        }
        text = end + 1;
    }
}

/* Return a socket on loopback that sends to one port and receives only from it; below 0 if the system grants none. */
static int open_channel(long own_port, long loop_port) {
    struct sockaddr_in own = {.sin_family = AF_INET}, loop = {.sin_family = AF_INET};
    own.sin_port = htons((uint16_t)own_port);
    loop.sin_port = htons((uint16_t)loop_port);
    own.sin_addr.s_addr = loop.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const int channel = socket(AF_INET, SOCK_DGRAM, 0);
    if (channel < 0 || bind(channel, (struct sockaddr *)&own, sizeof own) != 0 ||
        connect(channel, (struct sockaddr *)&loop, sizeof loop) != 0 || fcntl(channel, F_SETFL, O_NONBLOCK) != 0)
        return -1;
    return channel;
}

/* The connection to the loop: a socket, or shared memory. */
struct connection {
    int channel; /* the socket; below 0 for shared memory */
    struct idc_shared memory;
};

static ssize_t receive(struct connection *to, unsigned char *data) {
    if (to->channel >= 0) return recv(to->channel, data, 65536, 0);
    const size_t size = idc_shared_receive(&to->memory, data);
    return size ? (ssize_t)size : -1;
}

static int post(struct connection *to, const unsigned char *data, size_t size) {
    if (to->channel < 0) return idc_shared_send(&to->memory, data, size), 1;
    return send(to->channel, data, size, 0) >= 0 || errno == ECONNREFUSED || errno == EAGAIN;
}

/* Times from sending a state to the command that answers it, counted by microseconds. */
struct answers {
    uint64_t count, of_us[LONGEST_US];
};

static void count_answer(struct answers *answers, int64_t ns) {
    const int64_t us = ns / 1000;
    answers->count++;
    answers->of_us[us < LONGEST_US ? us : LONGEST_US - 1]++;
}

/* Return the time within which this share of all answers came [us]. */
static int quantile(const struct answers *answers, double share) {
    uint64_t sum = 0;
    for (int us = 0; us < LONGEST_US; us++)
        if ((double)(sum += answers->of_us[us]) >= share * (double)answers->count) return us;
    return LONGEST_US;
}

/* Ask for real time: a priority above ordinary processes, and memory that is never swapped out. */
static void hurry(int priority) {
    const struct sched_param param = {.sched_priority = priority};
    if (sched_setscheduler(0, SCHED_FIFO, &param) != 0) fprintf(stderr, "SCHED_FIFO: %s\n", strerror(errno));
    if (mlockall(MCL_CURRENT | MCL_FUTURE) != 0) fprintf(stderr, "locked memory: %s\n", strerror(errno));
}

int main(int argc, char **argv) {
    struct machine machine = {.names = NAN};
    const char *begin = NULL, *file = NULL;
    long hz = 1000, patience = 20;
    int measures = 0;
    for (int option; (option = getopt(argc, argv, "f:j:q:r:p:l:s:m")) != -1;) {
        if (option == 's') file = optarg;
        if (option == 'm') measures = 1;
        if (option == 'f') machine.feet = (uint32_t)number(optarg, "FEET", 1, MOST_FEET);
        if (option == 'j') machine.names = idc_number(optarg);
        if (option == 'q') begin = optarg;
        if (option == 'r') hz = number(optarg, "HZ", 1, 100000);
        if (option == 'p') patience = number(optarg, "PATIENCE", 1, 1000000);
        if (option == 'l') LIMIT = (double)number(optarg, "LIMIT", 1, 1000);
        if (option == '?') return 2;
    }
    if (argc - optind != (file == NULL ? 4 : 2)) {
        fprintf(stderr, "usage: machine [-f FEET] [-j NAME,NAME,...] [-q Q,Q,...] [-r HZ] [-p PATIENCE] [-l LIMIT] [-m] "
                        "ROBOT JOINTS OWN_PORT LOOP_PORT, or -s FILE ROBOT JOINTS\n");
        return 2;
    }
    argv += optind;
    const uint32_t robot = idc_number(argv[0]);
    machine.joints = (uint32_t)number(argv[1], "JOINTS", 1, MOST_JOINTS);
    if (begin != NULL) place(&machine, begin);
    struct connection to = {.channel = -1};
    if (file == NULL)
        to.channel = open_channel(number(argv[2], "OWN_PORT", 1, 65535), number(argv[3], "LOOP_PORT", 1, 65535));
    if (file == NULL ? to.channel < 0 : idc_shared_open(&to.memory, file) != 0) {
        fprintf(stderr, "%s: %s\n", file == NULL ? "UDP" : file, strerror(errno));
        return 3;
    }

    static struct heard heard;
    double command[IDC_ROWS * MOST_JOINTS] = {0}; /* that the drives follow */
    static unsigned char data[65536];
    double values[MOST_VALUES], limit[MOST_JOINTS];
    for (uint32_t i = 0; i < machine.joints; i++) limit[i] = LIMIT;
    idc_command_range(machine.joints, limit, heard.low, heard.high);
    heard.inbox = (struct idc_inbox){.kind = IDC_COMMAND, .robot = robot, .count = IDC_ROWS * machine.joints};
    heard.inbox.low = heard.low, heard.inbox.high = heard.high;
    struct idc_outbox outbox = {.kind = IDC_STATE, .robot = robot, .session = (uint32_t)getpid()};
    const int64_t period = 1000000000 / hz;
    struct idc_life life = {.patience_ns = patience * period, .still_ns = STILL_NS, .most_ns = BRAKED_NS, .rest = REST};
    static struct answers answers;
    hurry(measures ? MEASURING : PRIORITY); /* polling must not keep the loop from its core */
    const pid_t parent = getppid();
    int64_t due = now_ns(), sent = due;
    int farewell = 0;
    while (farewell < FAREWELL) {
        due += period;
        const uint64_t before = heard.inbox.accepted;
        while (measures && life.mode == IDC_RUNNING && now_ns() < due) {
            const ssize_t got = receive(&to, data);
            if (got < 0) continue;
            listen_to(&heard, data, (size_t)got);
            if (heard.head.echo != outbox.sequence) continue;
            count_answer(&answers, now_ns() - sent);
            break;
        }
        const struct timespec until = {due / 1000000000, due % 1000000000};
        while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR) {
        }
        for (ssize_t got; (got = receive(&to, data)) >= 0;) listen_to(&heard, data, (size_t)got);
        const enum idc_mode mode = idc_live(&life, &heard.inbox, heard.head.mode, heard.inbox.accepted != before,
                                            fastest(&machine), now_ns());
        if (mode == IDC_RUNNING) adopt(&machine, command, heard.command);
        memcpy(command, heard.command, sizeof command);
        if (life.begun) move(&machine, mode, command, 1e-9 * (double)period);
        const uint64_t echo = heard.inbox.known ? heard.head.sequence : 0;
        const uint32_t count = describe(values, &machine);
        sent = now_ns();
        const size_t size = idc_seal(&outbox, (uint16_t)mode, sent, echo, values, count, data);
        if (!post(&to, data, size)) break;
        farewell += mode == IDC_STOPPED;
        if (getppid() != parent && mode < IDC_RUNNING) break; /* the parent process ended before the machine moved */
    }
    printf("accepted %llu dropped %llu moved %.3f s %s\n", (unsigned long long)heard.inbox.accepted,
           (unsigned long long)dropped(&heard), machine.t,
           life.silent ? "silent" : "told to stop");
    if (measures)
        printf("answers to %llu states within %d us (50 %%), %d us (99 %%)\n", (unsigned long long)answers.count,
               quantile(&answers, 0.5), quantile(&answers, 0.99));
    if (to.channel >= 0) close(to.channel);
    return 0;
}
