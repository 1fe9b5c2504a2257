/* A machine in C at the other end of `idcontrol loop`: joints of equal inertia that turn freely.
 *
 *     cc -O2 -o machine machine.c
 *     ./machine ROBOT JOINTS OWN_PORT LOOP_PORT [HZ [PATIENCE]]
 *
 * It speaks the datagrams that idcontrol/loop/wire.py describes, on loopback, and does what the electronics of a robot
 * do: hold still until torques are asked for, apply the newest until newer ones come, brake when none came for
 * PATIENCE (20) of its periods, and tell its state in every period. Replace `move` by your drives and sensors. Little-endian computers
 * only: values are copied as they lie in memory.
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

enum { HEAD = 48, MOST_JOINTS = 64, COMMAND = 1, STATE = 2, FAREWELL = 20 };
enum mode { IDLE, READY, RUNNING, DAMPED, STOPPED };

static const double INERTIA = 0.1; /* of every joint [kg m2] */
static const double DAMPING = 1.0; /* of the brake [N m s/rad] */
static const double REST = 0.05;   /* all joints slower than this are at rest [rad/s] */

struct joint {
    double q, v, tau;
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
    int any;
    uint16_t mode;
    uint32_t session;
    uint64_t sequence;
    double tau[MOST_JOINTS];
    unsigned long accepted, dropped;
};

static void listen_to(struct heard *heard, const unsigned char *data, size_t size, uint32_t robot, uint32_t joints) {
    uint16_t kind, mode;
    uint32_t to, session, count, sum;
    uint64_t sequence;
    double tau[MOST_JOINTS];
    heard->dropped++; /* until it has proved to be sound */
    if (size != HEAD + 8u * joints || memcmp(data, "IDC1", 4) != 0) return;
    memcpy(&kind, data + 4, 2);
    memcpy(&mode, data + 6, 2);
    memcpy(&to, data + 8, 4);
    memcpy(&session, data + 12, 4);
    memcpy(&sequence, data + 16, 8);
    memcpy(&count, data + 40, 4);
    memcpy(&sum, data + 44, 4);
    if (sum != checksum(data, size)) return;
    if (kind != COMMAND || to != robot || count != joints || mode > STOPPED) return;
    if (heard->any && (session != heard->session || sequence <= heard->sequence)) return;
    memcpy(tau, data + HEAD, 8u * joints);
    for (uint32_t i = 0; i < joints; i++)
        if (!isfinite(tau[i])) return;
    heard->dropped--;
    heard->accepted++;
    heard->any = 1;
    heard->mode = mode;
    heard->session = session;
    heard->sequence = sequence;
    memcpy(heard->tau, tau, sizeof heard->tau);
}

static size_t speak(unsigned char *data, enum mode mode, uint32_t robot, uint64_t sequence, uint64_t echo, double t,
                    const struct joint *joint, uint32_t joints) {
    const uint16_t kind = STATE, as = (uint16_t)mode;
    const uint32_t session = (uint32_t)getpid(), count = 1 + 3 * joints + 3;
    const int64_t stamp = now_ns();
    const size_t size = HEAD + 8u * count;
    double value[1 + 3 * MOST_JOINTS + 3] = {t}; /* t, q, v, tau, and an accelerometer that shows zero */
    for (uint32_t i = 0; i < joints; i++) {
        value[1 + i] = joint[i].q;
        value[1 + joints + i] = joint[i].v;
        value[1 + 2 * joints + i] = joint[i].tau;
    }
    memcpy(data, "IDC1", 4);
    memcpy(data + 4, &kind, 2);
    memcpy(data + 6, &as, 2);
    memcpy(data + 8, &robot, 4);
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

static void move(struct joint *joint, uint32_t joints, enum mode mode, const double *tau, double dt) {
    for (uint32_t i = 0; i < joints; i++) {
        joint[i].tau = mode == RUNNING ? tau[i] : 0.0;
        if (mode == DAMPED) joint[i].tau = -DAMPING * joint[i].v / (1.0 + dt * DAMPING / INERTIA);
        joint[i].v += dt * joint[i].tau / INERTIA;
        joint[i].q += dt * joint[i].v;
    }
}

int main(int argc, char **argv) {
    if (argc < 5) {
        fprintf(stderr, "usage: %s ROBOT JOINTS OWN_PORT LOOP_PORT [HZ [PATIENCE]]\n", argv[0]);
        return 2;
    }
    const uint32_t robot = crc32(0, (const unsigned char *)argv[1], strlen(argv[1]));
    const uint32_t joints = (uint32_t)strtoul(argv[2], NULL, 10);
    const int64_t period = 1000000000 / (argc > 5 ? strtol(argv[5], NULL, 10) : 1000);
    const int64_t patience = period * (argc > 6 ? strtol(argv[6], NULL, 10) : 20);
    if (joints < 1 || joints > MOST_JOINTS) {
        fprintf(stderr, "JOINTS must be 1 to %d\n", MOST_JOINTS);
        return 2;
    }
    struct sockaddr_in own = {.sin_family = AF_INET}, loop = {.sin_family = AF_INET};
    own.sin_port = htons((uint16_t)strtoul(argv[3], NULL, 10));
    loop.sin_port = htons((uint16_t)strtoul(argv[4], NULL, 10));
    own.sin_addr.s_addr = loop.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const int channel = socket(AF_INET, SOCK_DGRAM, 0);
    if (channel < 0 || bind(channel, (struct sockaddr *)&own, sizeof own) != 0 ||
        connect(channel, (struct sockaddr *)&loop, sizeof loop) != 0 || fcntl(channel, F_SETFL, O_NONBLOCK) != 0) {
        fprintf(stderr, "UDP: %s\n", strerror(errno));
        return 3;
    }

    struct joint joint[MOST_JOINTS] = {{0.0, 0.0, 0.0}};
    struct heard heard = {0};
    unsigned char data[65536];
    enum mode mode = IDLE;
    uint64_t sequence = 0;
    int64_t due = now_ns(), since_heard = due;
    double t = 0.0;
    int silent = 0, braking = 0, farewell = 0;
    while (farewell < FAREWELL) {
        due += period;
        const struct timespec until = {due / 1000000000, due % 1000000000};
        while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR) {
        }
        const unsigned long before = heard.accepted;
        for (ssize_t got; (got = recv(channel, data, sizeof data, 0)) >= 0;)
            listen_to(&heard, data, (size_t)got, robot, joints);
        if (heard.accepted != before) since_heard = now_ns();
        silent = now_ns() - since_heard > patience;

        if (mode == IDLE && heard.any) mode = READY;
        if (mode == READY && heard.mode == RUNNING && !silent) mode = RUNNING;
        if (mode == RUNNING && (silent || heard.mode == DAMPED)) mode = DAMPED;
        if (heard.any && heard.mode == STOPPED) mode = STOPPED;
        if (mode == DAMPED && silent) {
            double fastest = 0.0;
            for (uint32_t i = 0; i < joints; i++) fastest = fmax(fastest, fabs(joint[i].v));
            if (fastest < REST || ++braking * period > 1000000000) mode = STOPPED;
        }
        if (mode >= RUNNING) {
            move(joint, joints, mode, heard.tau, 1e-9 * (double)period);
            t += 1e-9 * (double)period;
        }
        const size_t size = speak(data, mode, robot, ++sequence, heard.any ? heard.sequence : 0, t, joint, joints);
        if (send(channel, data, size, 0) < 0 && errno != ECONNREFUSED && errno != EAGAIN) break;
        farewell += mode == STOPPED;
        if (getppid() == 1 && mode < RUNNING) break; /* whoever started us is gone before we moved */
    }
    printf("accepted %lu dropped %lu moved %.3f s %s\n", heard.accepted, heard.dropped, t,
           silent ? "silent" : "told to stop");
    close(channel);
    return 0;
}
