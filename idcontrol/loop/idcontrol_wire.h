/* The datagrams between a loop of idcontrol and its machine, for C11 and C++17. No other file is needed.
 *
 *     idcontrol loop --header > idcontrol_wire.h
 *
 * idcontrol/loop/wire.py describes the datagrams byte by byte. This header seals and checks them, and gives the place of
 * each value of a state. No function allocates memory or waits. Little-endian computers only: values are copied as they
 * lie in memory.
 */
#ifndef IDCONTROL_WIRE_H
#define IDCONTROL_WIRE_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "idcontrol_wire.h copies numbers as they lie in memory, which must be little endian"
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define IDC_MAGIC "IDC2"
enum { IDC_HEAD = 48, IDC_LARGEST = 65507, IDC_AHEAD = 1000, IDC_ROWS = 5, IDC_AXES = 4 };
/* Position and velocity errors [rad, rad/s] at which the largest gains of a drive command its full torque. */
static const double IDC_STIFFEST_RAD = 0.01, IDC_STIFFEST_RAD_S = 0.5;
enum idc_kind { IDC_COMMAND = 1, IDC_STATE = 2 };
enum idc_mode { IDC_IDLE = 0, IDC_READY = 1, IDC_RUNNING = 2, IDC_DAMPED = 3, IDC_STOPPED = 4 };
/* The reason why a datagram was dropped; IDC_TAKEN if it was accepted. */
enum idc_drop {
    IDC_SIZE = 0,
    IDC_DAMAGED = 1,
    IDC_FOREIGN = 2,
    IDC_OLD = 3,
    IDC_RANGE = 4,
    IDC_VERSION = 5,
    IDC_TAKEN = 6
};

/* CRC-32 as in zlib. Pass 0 for the first part of the data, and the last result for each further part. */
static inline uint32_t idc_crc32(uint32_t crc, const void *data, size_t size) {
    /* tables for the low and the high half of a byte: bit by bit, the 1.4 kB of a round trip would take 13 us */
    static const uint32_t low[16] = {
        0x00000000u, 0x77073096u, 0xEE0E612Cu, 0x990951BAu, 0x076DC419u, 0x706AF48Fu, 0xE963A535u, 0x9E6495A3u,
        0x0EDB8832u, 0x79DCB8A4u, 0xE0D5E91Eu, 0x97D2D988u, 0x09B64C2Bu, 0x7EB17CBDu, 0xE7B82D07u, 0x90BF1D91u};
    static const uint32_t high[16] = {
        0x00000000u, 0x1DB71064u, 0x3B6E20C8u, 0x26D930ACu, 0x76DC4190u, 0x6B6B51F4u, 0x4DB26158u, 0x5005713Cu,
        0xEDB88320u, 0xF00F9344u, 0xD6D6A3E8u, 0xCB61B38Cu, 0x9B64C2B0u, 0x86D3D2D4u, 0xA00AE278u, 0xBDBDF21Cu};
    const unsigned char *byte = (const unsigned char *)data;
    crc = ~crc;
    for (size_t i = 0; i < size; i++) {
        crc ^= byte[i];
        crc = (crc >> 8) ^ low[crc & 15] ^ high[crc >> 4 & 15];
    }
    return ~crc;
}

/* Checksum of a robot's name, or of the names of joints, separated by commas. */
static inline uint32_t idc_number(const char *text) { return idc_crc32(0, text, strlen(text)); }

static inline uint32_t idc_checksum(const unsigned char *data, size_t size) {
    return idc_crc32(idc_crc32(0, data, 44), data + IDC_HEAD, size - IDC_HEAD);
}

/* Numbers and seals datagrams of one kind. Set kind, robot and session; initialize the rest with zero. */
struct idc_outbox {
    uint16_t kind;
    uint32_t robot, session;
    uint64_t sequence; /* number of the last datagram */
};

/* Write the next datagram into `data`, which has room for 48 + 8 * count bytes; return the datagram's size. */
static inline size_t idc_seal(struct idc_outbox *box, uint16_t mode, int64_t stamp_ns, uint64_t echo,
                              const double *values, uint32_t count, unsigned char *data) {
    const size_t size = IDC_HEAD + 8u * (size_t)count;
    uint32_t sum;
    box->sequence++;
    memcpy(data, IDC_MAGIC, 4);
    memcpy(data + 4, &box->kind, 2);
    memcpy(data + 6, &mode, 2);
    memcpy(data + 8, &box->robot, 4);
    memcpy(data + 12, &box->session, 4);
    memcpy(data + 16, &box->sequence, 8);
    memcpy(data + 24, &stamp_ns, 8);
    memcpy(data + 32, &echo, 8);
    memcpy(data + 40, &count, 4);
    memcpy(data + IDC_HEAD, values, 8u * (size_t)count);
    sum = idc_checksum(data, size);
    memcpy(data + 44, &sum, 4);
    return size;
}

/* Accepts good datagrams and drops bad datagrams. Set kind, robot, count, low and high; initialize the rest with zero. To
 * accept only one session, set `session`, and `known` to 1. After setting `known` to 0, a datagram of another session is
 * accepted, but no old datagram of the last session. */
struct idc_inbox {
    uint16_t kind;
    uint32_t robot, count;
    const double *low, *high; /* range of each value; if low is NaN, the value is NaN or within -high to high */
    uint32_t session;
    int known;
    uint64_t last; /* number of the last accepted datagram */
    uint64_t far;  /* number of a dropped datagram far beyond it; a datagram that continues from there is accepted */
    uint64_t accepted, dropped[6];
};

/* Contents of the head of a datagram. */
struct idc_head {
    uint16_t mode;
    uint64_t sequence, echo;
    int64_t stamp_ns;
};

static inline int idc_within(const double *low, const double *values, const double *high, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        const double value = values[i];
        if (low[i] != low[i] ? value > high[i] || value < -high[i] : !(low[i] <= value && value <= high[i])) return 0;
    }
    return 1;
}

static inline enum idc_drop idc_judge(const struct idc_inbox *box, const unsigned char *data, size_t size,
                                      struct idc_head *head, double *values, uint32_t *session) {
    uint16_t kind;
    uint32_t robot, count, sum;
    if (size >= IDC_HEAD) memcpy(&sum, data + 44, 4);
    if (size >= IDC_HEAD && memcmp(data, IDC_MAGIC, 3) == 0 && data[3] != IDC_MAGIC[3] &&
        sum == idc_checksum(data, size))
        return IDC_VERSION;
    if (size != IDC_HEAD + 8u * (size_t)box->count) return IDC_SIZE;
    if (memcmp(data, IDC_MAGIC, 4) != 0 || sum != idc_checksum(data, size)) return IDC_DAMAGED;
    memcpy(&kind, data + 4, 2);
    memcpy(&head->mode, data + 6, 2);
    memcpy(&robot, data + 8, 4);
    memcpy(session, data + 12, 4);
    memcpy(&head->sequence, data + 16, 8);
    memcpy(&head->stamp_ns, data + 24, 8);
    memcpy(&head->echo, data + 32, 8);
    memcpy(&count, data + 40, 4);
    if (kind != box->kind || robot != box->robot || count != box->count) return IDC_FOREIGN;
    const uint64_t last = *session == box->session ? box->last : 0;
    if ((box->known && *session != box->session) || head->sequence <= last) return IDC_OLD;
    memcpy(values, data + IDC_HEAD, 8u * (size_t)count);
    return head->mode > IDC_STOPPED || !idc_within(box->low, values, box->high, count) ? IDC_RANGE : IDC_TAKEN;
}

/* Accept a datagram, or drop and count it. `head` and `values` (count) are valid only if the result is IDC_TAKEN. */
static inline enum idc_drop idc_accept(struct idc_inbox *box, const void *data, size_t size, struct idc_head *head,
                                       double *values) {
    uint32_t session = 0;
    enum idc_drop why = idc_judge(box, (const unsigned char *)data, size, head, values, &session);
    if (why == IDC_TAKEN) {
        const uint64_t last = session == box->session ? box->last : 0;
        const uint64_t beyond = head->sequence - box->far;
        if (head->sequence - last > IDC_AHEAD && !(head->sequence > box->far && beyond <= IDC_AHEAD)) {
            box->far = head->sequence;
            why = IDC_OLD;
        }
    }
    if (why != IDC_TAKEN) {
        box->dropped[why]++;
        return why;
    }
    box->accepted++;
    box->session = session;
    box->known = 1;
    box->last = head->sequence;
    return IDC_TAKEN;
}

/* Sizes of a machine. */
struct idc_machine {
    uint32_t nq, nv;  /* number of values of a configuration and of a velocity, in Pinocchio's layout */
    uint32_t joints;  /* number of actuated joints */
    uint32_t feet;    /* number of feet with force sensors */
    int floating;     /* 1 if a configuration begins with a position and a quaternion (x, y, z, w) */
};

/* Index of the first value of each part of a state. */
struct idc_state_layout {
    uint32_t t, q, v, tau, accelerometer, force, normal, drive_error, temperature, voltage, estop, axes, buttons;
    uint32_t joint_order, model; /* checksums of the joints' names in their order, and of the model */
    uint32_t count;              /* number of all values */
};

static inline struct idc_state_layout idc_state_layout_of(const struct idc_machine *m) {
    struct idc_state_layout at;
    at.t = 0;
    at.q = 1;
    at.v = at.q + m->nq;
    at.tau = at.v + m->nv;
    at.accelerometer = at.tau + m->joints;
    at.force = at.accelerometer + 3;
    at.normal = at.force + 3 * m->feet;
    at.drive_error = at.normal + 3 * m->feet;
    at.temperature = at.drive_error + m->joints;
    at.voltage = at.temperature + m->joints;
    at.estop = at.voltage + 1;
    at.axes = at.estop + 1;
    at.buttons = at.axes + IDC_AXES;
    at.joint_order = at.buttons + 1;
    at.model = at.joint_order + 1;
    at.count = at.model + 1;
    return at;
}

/* Write the range of each value of a command: rows tau, q, v, kp, kd of `joints` values each. `torque_limit` [N m] has
 * the limit of each joint. */
static inline void idc_command_range(uint32_t joints, const double *torque_limit, double *low, double *high) {
    for (uint32_t i = 0; i < joints; i++) {
        const double t = torque_limit[i];
        const double kp = fmin(t / IDC_STIFFEST_RAD, 1e6), kd = fmin(t / IDC_STIFFEST_RAD_S, 1e6);
        const double most[IDC_ROWS] = {t, 1e4, 1e3, kp, kd};
        for (uint32_t row = 0; row < IDC_ROWS; row++) {
            high[row * joints + i] = most[row];
            low[row * joints + i] = row < 3 ? -most[row] : 0.0; /* gains are not negative */
        }
    }
}

/* Write the range of each value of a state, which no real machine exceeds; low is NaN for values that need not be
 * measured. */
static inline void idc_state_range(const struct idc_machine *m, double *low, double *high) {
    const struct idc_state_layout at = idc_state_layout_of(m);
    const double word = 4294967295.0, unknown = (double)NAN;
    for (uint32_t i = 0; i < at.count; i++) {
        high[i] = i < at.v ? 1e4 : i < at.tau ? 1e3 : 1e6;
        if (m->floating && i >= 4 && i < 8) high[i] = 2.0; /* other norms than 1 have a fault of their own */
        if ((i >= at.drive_error && i < at.temperature) || i >= at.buttons) high[i] = word;
        low[i] = i < at.drive_error ? -high[i] : unknown;
    }
    high[0] = 1.7976931348623157e308;
    low[0] = 0.0;
}

/* The mode of a machine, and the numbers that determine it. Set the first four numbers; initialize the rest with zero. */
struct idc_life {
    int64_t patience_ns; /* silence of the loop after which a running machine brakes */
    int64_t still_ns;    /* braking ends when all joints have been slow for this time */
    int64_t most_ns;     /* longest time of braking */
    double rest;         /* speed below which a joint is slow [rad/s] */
    enum idc_mode mode;
    int silent; /* 1 while the loop is silent for longer than the patience */
    int begun;  /* 1 once torques have flowed */
    int64_t heard_ns, moved_ns, damped_ns;
};

/* Advance the mode; call this once per period. In IDC_RUNNING the machine applies the commands, in IDC_DAMPED it brakes
 * by itself, and in other modes it applies no torque. `asked` is the mode in the newest command, `heard` is 1 if a command
 * was accepted in this period, `speed` is the largest speed of a joint [rad/s]. Return the mode. */
static inline enum idc_mode idc_live(struct idc_life *life, struct idc_inbox *box, int asked, int heard, double speed,
                                     int64_t now_ns) {
    if (heard || life->heard_ns == 0) life->heard_ns = now_ns;
    if (!(speed < life->rest) || life->moved_ns == 0) /* NaN is not at rest */
        life->moved_ns = now_ns;
    life->silent = asked != IDC_STOPPED && now_ns - life->heard_ns > life->patience_ns;
    if (life->mode == IDC_IDLE && box->known && !life->silent) life->mode = IDC_READY;
    if (life->mode == IDC_READY && life->silent) life->mode = IDC_IDLE, box->known = 0; /* the next loop may come */
    if (life->mode == IDC_READY && asked == IDC_RUNNING) life->mode = IDC_RUNNING, life->begun = 1;
    /* a running machine always brakes before it stops */
    if (life->mode == IDC_RUNNING && (life->silent || asked != IDC_RUNNING))
        life->mode = IDC_DAMPED, life->damped_ns = now_ns;
    if (life->mode == IDC_DAMPED &&
        (now_ns - life->moved_ns > life->still_ns || now_ns - life->damped_ns > life->most_ns)) {
        if (life->silent || asked == IDC_STOPPED) life->mode = IDC_STOPPED;
        else if (asked == IDC_READY) life->mode = IDC_READY; /* the operator has recovered the loop */
    }
    if (life->mode < IDC_RUNNING && box->known && asked == IDC_STOPPED) life->mode = IDC_STOPPED;
    return life->mode;
}

#ifdef __cplusplus
}
#endif

/* Shared memory between a loop and a machine on one computer: define IDC_SHARED before you include this file (POSIX, GCC
 * or Clang; under -std=c11 also define _POSIX_C_SOURCE as 200809L). A file contains a mailbox for each direction, with the
 * newest datagram; `idcontrol loop --peer FILE` opens the file. */
#ifdef IDC_SHARED
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <unistd.h>

enum { IDC_BOX = 16 + IDC_LARGEST + 5 };

struct idc_shared {
    unsigned char *out, *in;
    uint64_t seen; /* counter of the last datagram that was read */
};

/* Open the machine's end of a connection through the file `path`, which is created if it does not exist; return 0, or -1
 * if that fails (errno says why). */
static inline int idc_shared_open(struct idc_shared *link, const char *path) {
    const int file = open(path, O_RDWR | O_CREAT, 0600);
    void *memory = MAP_FAILED;
    if (file >= 0 && ftruncate(file, 2 * IDC_BOX) == 0)
        memory = mmap(NULL, 2 * IDC_BOX, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (file >= 0) close(file);
    if (memory == MAP_FAILED) return -1;
    link->in = (unsigned char *)memory;
    link->out = link->in + IDC_BOX;
    link->seen = __atomic_load_n((uint64_t *)(void *)link->in, __ATOMIC_ACQUIRE); /* an old datagram is not received */
    return 0;
}

/* Replace the datagram in the mailbox; its counter is odd during the write. */
static inline void idc_shared_send(struct idc_shared *link, const void *data, size_t size) {
    uint64_t *head = (uint64_t *)(void *)link->out;
    const uint64_t counter = head[0] & ~(uint64_t)1;
    __atomic_store_n(head, counter + 1, __ATOMIC_RELAXED);
    __atomic_thread_fence(__ATOMIC_RELEASE);
    head[1] = size;
    memcpy(link->out + 16, data, size);
    __atomic_store_n(head, counter + 2, __ATOMIC_RELEASE);
}

/* Copy a new datagram into `data`, which has room for IDC_LARGEST bytes; return its size, or 0 if there is none. */
static inline size_t idc_shared_receive(struct idc_shared *link, void *data) {
    const uint64_t *head = (const uint64_t *)(const void *)link->in;
    const uint64_t counter = __atomic_load_n(head, __ATOMIC_ACQUIRE);
    const size_t size = (size_t)head[1];
    if (counter == link->seen || counter % 2 == 1 || size > IDC_LARGEST) return 0;
    memcpy(data, link->in + 16, size);
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    if (__atomic_load_n(head, __ATOMIC_RELAXED) != counter) return 0; /* the writer is active: read at the next call */
    link->seen = counter;
    return size;
}
#endif
#endif
