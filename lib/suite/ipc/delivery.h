#pragma once
/// Conversation "delivery": qmgr drives a delivery program (smtp, lmtp, local, virtual, error, …).
///
/// qmgr opens connections (for local and the like: delivery slots), hands each the jobs of its pipelining window in
/// order, and closes it. Jobs of one connection are done in order; results come in order. The program never queues
/// beyond the window and never decides about retries.
/// After ConnectionClosed no more results come for that connection: jobs in `unstarted` had no effect at the peer and
/// are scheduled again without penalty; any other job of it without a JobResult is in doubt and is deferred.
/// Death of the program: the stage page tells qmgr which jobs may have had an effect (see Stage). One that ends in
/// order says so (leaving()).
#include <algorithm>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "lib/mail/delivery_status.h"
#include "lib/mail/envelope.h"
#include "lib/suite/ipc/destination.h"

namespace pen::ipc::delivery {

inline constexpr std::string_view kName = "delivery";

/// One byte per window slot in a page shared by memfd, written by the program without a system call: it survives
/// kill -9. handed: no effect yet; committed: end-of-data may have reached the peer (or the mailbox) from here on.
enum class Stage : std::uint8_t { handed, started, committed };

// qmgr → program
/// First message after the hello; carries the memfd of `slots` bytes.
struct StagePage {
  std::uint32_t slots = 0;
  PEN_FIELDS(slots)
};
/// What a connection is made through, where mail is sent from sources (lib/send/egress/file.h).
struct Through {
  std::string source;      // its name; empty: there is none
  std::string helo;        // for EHLO; empty: as without
  std::string address;     // of the host's family: bound to, or named to the proxy; empty: any
  std::uint8_t proxy = 0;  // egress::Proxy::Kind
  std::string proxy_host;  // numeric
  std::uint16_t proxy_port = 0;
  std::string user, password;
  PEN_FIELDS(source, helo, address, proxy, proxy_host, proxy_port, user, password)
};
struct OpenConnection {
  std::uint64_t connection = 0;
  Destination destination;
  std::string nexthop;        // of the job that caused it (for logs and per-domain settings)
  bool step_by_step = false;  // one command at a time: it has got out of step under pipelining
  bool clear_text = false;    // level may, and TLS with it broke a while ago: no STARTTLS
  Through through = {};
  PEN_FIELDS(connection, destination, nexthop, step_by_step, clear_text, through)
};
struct CloseConnection {  // after the jobs in hand
  std::uint64_t connection = 0;
  PEN_FIELDS(connection)
};
struct JobRecipient {
  std::uint32_t ordinal = 0;
  mail::Recipient recipient;
  PEN_FIELDS(ordinal, recipient)
};
/// Carries the body's descriptor (read-only; use pread from body_offset) when inline_body is empty and body.size > 0.
/// Of a probe everything is done short of handing the message over, and the answer is what would come of it.
struct Job : mail::MessageFacts {
  std::uint64_t job = 0;
  std::uint64_t connection = 0;
  std::uint32_t slot = 0;  // in the stage page
  std::string queue_id;
  WallTime active{};  // when it entered the active set: delays=a/b/c/d
  std::string nexthop;
  std::vector<JobRecipient> recipients;
  std::uint64_t body_offset = 0;
  std::string_view inline_body;
  bool soft_refusals = false;  // soft_bounce: qmgr tries again what is refused, and the log says so
  bool other_hosts = false;    // what this host does not take now is offered to another one in this round
  bool other_sender = false;   // `sender` is not what the queue has: it was made for these recipients (SRS, VERP)
  std::uint32_t attempt = 0;   // which try of the message this is, from 1 on (docs/events.md); 0: not said
  // shaping = yes: a refusal that complains of something by these rules is put off by qmgr, and the log says so
  bool shaped = false;
  std::string provider = {};  // the provider with these rules beside those for all; empty: no provider
  PEN_FIELDS(job, connection, slot, queue_id, arrival, active, sender, nexthop, recipients, envid, ret, body_type,
             smtputf8, requiretls, client, body, body_offset, inline_body, soft_refusals, purpose, other_hosts, verp,
             other_sender, attempt, tenant, shaped, provider, priority, release, release_request, signer)
};

// program → qmgr
struct Features {
  bool pipelining = false;
  bool chunking = false;
  bool starttls = false;
  bool eight_bit_mime = false;
  bool dsn = false;
  bool smtputf8 = false;
  std::uint64_t size_limit = 0;  // 0: none announced
  std::uint32_t window = 1;      // jobs this connection takes at once
  microseconds connect_time{0};
  microseconds round_trip{0};
  PEN_FIELDS(pipelining, chunking, starttls, eight_bit_mime, dsn, smtputf8, size_limit, window, connect_time,
             round_trip)
};
struct ConnectionOpened {
  std::uint64_t connection = 0;
  Features features;
  PEN_FIELDS(connection, features)
};
/// What kind of trouble: the scheduler learns from it.
enum class Trouble : std::uint8_t {
  none,
  refused,
  timed_out,
  unreachable,
  greeting_4xx,
  greeting_5xx,
  lost,
  peer_421,
  tls,
  local,
  replaced,  // of a connection that was not opened: this program ends, the destination has nothing to do with it
  source     // the same: its source cannot be used (its proxy fails, its address is not on this host)
};
/// Also the answer to an OpenConnection that failed (then `opened` is false and status says why).
struct ConnectionClosed {
  std::uint64_t connection = 0;
  bool opened = false;
  Trouble trouble = Trouble::none;
  mail::DeliveryStatus status;           // for the jobs that must be deferred because of it
  std::vector<std::uint64_t> unstarted;  // jobs
  bool out_of_step = false;              // its replies did not fit the commands, or it broke in a group of them
  bool lingers = false;                  // the session is over, but not closed yet: ConnectionGone follows
  PEN_FIELDS(connection, opened, trouble, status, unstarted, out_of_step, lingers)
};
/// The last word of a program that ends because another takes its place: of no connection. What it was handed and did
/// not begin is the next program's; it did not die of it. A qmgr that does not know this word passes over it.
inline constexpr std::uint64_t kNoConnection = 0;
inline ConnectionClosed leaving() {
  ConnectionClosed word;
  word.connection = kNoConnection;
  word.trouble = Trouble::replaced;
  return word;
}
/// It is closed on the wire.
struct ConnectionGone {
  std::uint64_t connection = 0;
  PEN_FIELDS(connection)
};
struct RecipientResult {
  std::vector<std::uint32_t> ordinals;
  mail::DeliveryStatus status;
  // of a job with other_hosts: it is this host that does not take it now, another may
  bool try_next_host = false;
  // of a job with recipients in several domains: the host takes one in a transaction, and these were of another
  bool one_domain = false;
  PEN_FIELDS(ordinals, status, try_next_host, one_domain)
};
/// One per job. The program has logged its Postfix-style lines itself (it knows relay and times), but for what is to be
/// offered to another host.
struct JobResult {
  std::uint64_t job = 0;
  std::uint64_t connection = 0;
  std::vector<RecipientResult> results;  // every recipient of the job in exactly one
  microseconds service_time{0};          // from start on the wire to the last reply
  bool cut_short = false;                // the connection ended before the last reply
  bool own_fault = false;                // what is deferred is so because of us: it says nothing of the peer
  // Ordinals that are deferred because they are beyond what the host takes in a transaction, of which it took others:
  // they are for another one at once.
  std::vector<std::uint32_t> rest = {};
  bool is_rest(std::uint32_t ordinal) const { return std::ranges::find(rest, ordinal) != rest.end(); }
  PEN_FIELDS(job, connection, results, service_time, cut_short, own_fault, rest)
};

using ToProgram = std::variant<StagePage, OpenConnection, CloseConnection, Job>;
using FromProgram = std::variant<ConnectionOpened, ConnectionClosed, JobResult, ConnectionGone>;

}  // namespace pen::ipc::delivery
