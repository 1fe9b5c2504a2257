/* A machine in C at the other end of `idcontrol loop`: joints of equal inertia that turn freely.
 *
 *     cc -O2 -o machine machine.c -lm
 *     ./machine [-f FEET] [-q Q,Q,...] [-r HZ] [-p PATIENCE] ROBOT JOINTS OWN_PORT LOOP_PORT
 *
 * It speaks the datagrams that idcontrol/loop/wire.py describes, on loopback, and does what the electronics of a robot
 * do: hold still until torques are asked for, follow the newest command until a newer one comes (drives close the loop
 * of its gains every 0.1 ms, within the torque limit), brake when none came for PATIENCE (20) of its periods, and tell
 * its state in every period, HZ (1000) times in a second. Replace `move` by your drives and sensors.
 *
 * With -f it is a robot on legs that hangs from a hoist: its base stands still, its FEET feel nothing. Without, it is an
 * arm. Joints begin at Q, or at zero. Little-endian computers only: values are copied as they lie in memory.
 */
#define _POSIX_C_SOURCE 200809L
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { HEAD = 48, MOST_JOINTS = 64, MOST_FEET = 16, COMMAND = 1, STATE = 2, FAREWELL = 20, AHEAD = 1000, ROWS = 5 };
enum { MOST_VALUES = 1 + 7 + 6 + 5 * MOST_JOINTS + 3 + 6 * MOST_FEET + 9 };
enum mode { IDLE, READY, RUNNING, DAMPED, STOPPED };

static const double INERTIA = 0.1; /* of every joint [kg m2] */
static const double LIMIT = 1e3;   /* of every joint [N m] */
static const double DRIVE = 1e-4;  /* longest period of the drives [s] */
static const double DAMPING = 1.0; /* of the brake [N m s/rad] */
static const double REST = 0.05;   /* all joints slower than this are at rest [rad/s] */
static const double HOIST = 1.0;   /* height at which a robot on legs hangs [m] */

struct joint {
    double q, v, tau;
};

struct machine {
    uint32_t robot, joints, feet; /* no feet: an arm */
    struct joint joint[MOST_JOINTS];
    double t;
};

static uint32_t crc32(uint32_t crc, const unsigned char *data, size_t size) {
    crc = ~crc;
    for (size_t i = 0; i < size; i++) {
        crc ^= data[i];
        for (int bit = 0; bit < 8; bit++) crc = (crc >> 1) ^ (0xEDB88320u & (0u - (crc & 1u)));
    }
    return ~crc;
}

static uint32_t checksum(const unsigned char *data, size_t size) {
    return crc32(crc32(0, data, 44), data + HEAD, size - HEAD);
}

static int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* What the loop said last. */
struct heard {
    int any; /* since we last lost it */
    uint16_t mode;
    uint32_t session;
    uint64_t sequence, far; /* of the last one taken; a number too far beyond it, to be continued by the next */
    double command[ROWS * MOST_JOINTS]; /* tau, q, v, kp, kd, one after the other */
    unsigned long accepted, dropped;
};

static void listen_to(struct heard *heard, const unsigned char *data, size_t size, uint32_t robot, uint32_t joints) {
    uint16_t kind, mode;
    uint32_t to, session, count, sum;
    uint64_t sequence;
    double command[ROWS * MOST_JOINTS];
    const uint32_t values = ROWS * joints;
    heard->dropped++; /* until it has proved to be sound */
    if (size != HEAD + 8u * values || memcmp(data, "IDC2", 4) != 0) return;
    memcpy(&kind, data + 4, 2);
    memcpy(&mode, data + 6, 2);
    memcpy(&to, data + 8, 4);
    memcpy(&session, data + 12, 4);
    memcpy(&sequence, data + 16, 8);
    memcpy(&count, data + 40, 4);
    memcpy(&sum, data + 44, 4);
    if (sum != checksum(data, size)) return;
    if (kind != COMMAND || to != robot || count != values || mode > STOPPED) return;
    if (session == heard->session ? sequence <= heard->sequence : heard->any) return; /* old, or of somebody else */
    memcpy(command, data + HEAD, 8u * values);
    for (uint32_t i = 0; i < values; i++)
        if (!isfinite(command[i]) || (i >= 3 * joints && command[i] < 0.0)) return; /* no gain is negative */
    const uint64_t last = session == heard->session ? heard->sequence : 0;
    if (sequence - last > AHEAD && (sequence <= heard->far || sequence - heard->far > AHEAD)) {
        heard->far = sequence;
        return;
    }
    heard->dropped--;
    heard->accepted++;
    heard->any = 1;
    heard->mode = mode;
    heard->session = session;
    heard->sequence = sequence;
    memcpy(heard->command, command, sizeof heard->command);
}

/* What is told of the machine, in the order of a state datagram; returns how many values that are. */
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
    /* drive errors, temperatures; voltage, emergency stop; joystick (5); numbers of joints and model: NaN, not measured */
    for (uint32_t i = 0; i < 2 * m->joints + 9; i++) value[n++] = NAN;
    return n;
}

static size_t speak(unsigned char *data, enum mode mode, uint64_t sequence, uint64_t echo, const struct machine *m) {
    double value[MOST_VALUES];
    const uint16_t kind = STATE, as = (uint16_t)mode;
    const uint32_t session = (uint32_t)getpid(), count = describe(value, m);
    const int64_t stamp = now_ns();
    const size_t size = HEAD + 8u * count;
    memcpy(data, "IDC2", 4);
    memcpy(data + 4, &kind, 2);
    memcpy(data + 6, &as, 2);
    memcpy(data + 8, &m->robot, 4);
    memcpy(data + 12, &session, 4);
    memcpy(data + 16, &sequence, 8);
    memcpy(data + 24, &stamp, 8);
    memcpy(data + 32, &echo, 8);
    memcpy(data + 40, &count, 4);
    memcpy(data + HEAD, value, 8u * count);
    const uint32_t sum = checksum(data, size);
    memcpy(data + 44, &sum, 4);
    return size;
}

/* The torque of a drive: feed-forward and impedance, the sum within the limit. */
static double drive(const struct joint *joint, const double *command, uint32_t joints, uint32_t i) {
    const double *tau = command, *q = tau + joints, *v = q + joints, *kp = v + joints, *kd = kp + joints;
    return fmax(-LIMIT, fmin(LIMIT, tau[i] + kp[i] * (q[i] - joint->q) + kd[i] * (v[i] - joint->v)));
}

static void move(struct machine *m, enum mode mode, const double *command, double dt) {
    const int steps = (int)ceil(dt / DRIVE - 1e-9);
    const double h = dt / steps;
    for (uint32_t i = 0; i < m->joints; i++) {
        struct joint *joint = &m->joint[i];
        for (int k = 0; k < steps; k++) {
            double tau = mode == RUNNING ? drive(joint, command, m->joints, i) : 0.0;
            if (mode == DAMPED) tau = -DAMPING * joint->v / (1.0 + h * DAMPING / INERTIA);
            if (k == 0) joint->tau = tau;
            joint->v += h * tau / INERTIA;
            joint->q += h * joint->v;
        }
    }
    m->t += dt;
}

static double fastest(const struct machine *m) {
    double speed = 0.0;
    for (uint32_t i = 0; i < m->joints; i++) speed = fmax(speed, fabs(m->joint[i].v));
    return speed;
}

/* A whole number from `least` to `most`; anything else ends the program. */
static long number(const char *text, const char *what, long least, long most) {
    char *end;
    const long value = strtol(text, &end, 10);
    if (*text == 0 || *end != 0 || value < least || value > most) {
        fprintf(stderr, "%s must be a whole number from %ld to %ld, not %s\n", what, least, most, text);
        exit(2);
    }
    return value;
}

/* Positions "Q,Q,...", one for each joint; anything else ends the program. */
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

/* A socket on loopback that sends to one port and hears nobody else; below 0 if there is none to be had. */
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

int main(int argc, char **argv) {
    struct machine machine = {0};
    const char *begin = NULL;
    long hz = 1000, patience = 20;
    for (int option; (option = getopt(argc, argv, "f:q:r:p:")) != -1;) {
        if (option == 'f') machine.feet = (uint32_t)number(optarg, "FEET", 1, MOST_FEET);
        if (option == 'q') begin = optarg;
        if (option == 'r') hz = number(optarg, "HZ", 1, 100000);
        if (option == 'p') patience = number(optarg, "PATIENCE", 1, 1000000);
        if (option == '?') return 2;
    }
    if (argc - optind != 4) {
        fprintf(stderr, "usage: machine [-f FEET] [-q Q,Q,...] [-r HZ] [-p PATIENCE] ROBOT JOINTS OWN_PORT LOOP_PORT\n");
        return 2;
    }
    argv += optind;
    machine.robot = crc32(0, (const unsigned char *)argv[0], strlen(argv[0]));
    machine.joints = (uint32_t)number(argv[1], "JOINTS", 1, MOST_JOINTS);
    if (begin != NULL) place(&machine, begin);
    const int channel = open_channel(number(argv[2], "OWN_PORT", 1, 65535), number(argv[3], "LOOP_PORT", 1, 65535));
    if (channel < 0) {
        fprintf(stderr, "UDP: %s\n", strerror(errno));
        return 3;
    }

    struct heard heard = {0};
    unsigned char data[65536];
    enum mode mode = IDLE;
    uint64_t sequence = 0;
    const int64_t period = 1000000000 / hz;
    const pid_t parent = getppid();
    int64_t due = now_ns(), since_heard = due, since_damped = 0;
    int silent = 0, farewell = 0;
    while (farewell < FAREWELL) {
        due += period;
        const struct timespec until = {due / 1000000000, due % 1000000000};
        while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR) {
        }
        const unsigned long before = heard.accepted;
        for (ssize_t got; (got = recv(channel, data, sizeof data, 0)) >= 0;)
            listen_to(&heard, data, (size_t)got, machine.robot, machine.joints);
        if (heard.accepted != before) since_heard = now_ns();
        silent = now_ns() - since_heard > patience * period;

        if (mode == IDLE && heard.any && !silent) mode = READY;
        if (mode == READY && silent) mode = IDLE, heard.any = 0; /* the next loop is welcome: nothing has moved */
        if (mode == READY && heard.mode == RUNNING) mode = RUNNING;
        if (mode == RUNNING && (silent || heard.mode == DAMPED)) mode = DAMPED, since_damped = now_ns();
        if (heard.any && heard.mode == STOPPED) mode = STOPPED;
        if (mode == DAMPED && silent && (fastest(&machine) < REST || now_ns() - since_damped > 1000000000))
            mode = STOPPED;
        if (mode >= RUNNING) move(&machine, mode, heard.command, 1e-9 * (double)period);
        const size_t size = speak(data, mode, ++sequence, heard.any ? heard.sequence : 0, &machine);
        if (send(channel, data, size, 0) < 0 && errno != ECONNREFUSED && errno != EAGAIN) break;
        farewell += mode == STOPPED;
        if (getppid() != parent && mode < RUNNING) break; /* whoever started us is gone before we moved */
    }
    printf("accepted %lu dropped %lu moved %.3f s %s\n", heard.accepted, heard.dropped, machine.t,
           silent ? "silent" : "told to stop");
    close(channel);
    return 0;
}
