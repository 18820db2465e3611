#pragma once
/// What each program of the suite may do: the table that docs/security.md shows.
///
/// Use:     const Program& row = row_of("smtpd");      // of a name that stands nowhere: what every program gets
/// Rules:   a row says what the program needs, and make_plan() (plan.h) turns it and the settings into rules for the
///          kernel. What no row grants nobody may do: start programs, fork, look into or signal other processes,
///          listen, gain rights.
/// Pure; any thread.
#include <cstdint>
#include <span>
#include <string_view>

#include "lib/config/settings.h"

namespace pen::confine {

/// Sockets of the internet, and what TCP may reach.
enum class Network : std::uint8_t {
  none,   // no such socket
  named,  // none, unless settings name servers of tables, filters or the like: then those ports
  dns,    // name servers, and what settings name
  any,    // every host and port
};

/// What a program may make, change and remove.
using Writes = std::uint32_t;
inline constexpr Writes kNothing = 0;
inline constexpr Writes kQueueLog = 1;   // queue_log_directory
inline constexpr Writes kSpool = 2;      // spool_directory
inline constexpr Writes kMaildrop = 4;   // queue_directory/maildrop
inline constexpr Writes kCorrupt = 8;    // queue_directory/corrupt
inline constexpr Writes kProbes = 16;    // address_verify_map
inline constexpr Writes kTested = 32;    // postscreen_cache_map, at a port of postscreen
inline constexpr Writes kEvents = 64;    // directories of event_log_file and event_accounting_file
inline constexpr Writes kHistory = 128;  // penapi_history_map
// In data_directory, each its one writer's:
inline constexpr Writes kTicketKeys = 256;      // tls_ticket_keys
inline constexpr Writes kDestinations = 512;    // destdb
inline constexpr Writes kSenders = 1024;        // senders, suppressed
inline constexpr Writes kPolicies = 2048;       // mta_sts
inline constexpr Writes kPolicyLocks = 4096;    // the locks in mta_sts, for its readers
inline constexpr Writes kTlsReports = 8192;     // tlsrpt
inline constexpr Writes kDmarcReports = 16384;  // dmarcrpt
inline constexpr Writes kUndelivered = 32768;   // events
inline constexpr Writes kSubmissions = 65536;   // penapi_submission_map, where penapi takes mail

/// Sets of capabilities, as the kernel numbers them.
using Capabilities = std::uint64_t;

enum class Kind : std::uint8_t {
  confined,  // runs as mail_owner, without rights, and starts nothing
  becomes,   // becomes users and runs what they name: stays root, with the capabilities for it
  unknown,   // has no row: no rights, and no more is known
};

/// The account of a confined program; the first three where the queue has an account of its own (queue_owner), else all
/// are mail_owner.
enum class Account : std::uint8_t {
  mail,    // mail_owner
  queue,   // queue_owner, which alone can open the queue
  orders,  // mail_owner with the group of queue_owner, by which qmgr knows programs that may give orders
  logins,  // mail_owner with the group kLoginsGroup, where there is one
};

/// Debian's group of the accounts that may ask saslauthd and read sasldb.
inline constexpr const char* kLoginsGroup = "sasl";

struct Program {
  std::string_view name;
  Kind kind = Kind::unknown;
  Network network = Network::none;
  Writes writes = kNothing;
  Capabilities keeps = 0;
  // What it starts inherits its bounding set and must have it whole, for commands of master.cf may be set-id.
  bool whole_bounding_set = false;
  Account account = Account::mail;
};

std::span<const Program> programs();
/// Under which name the settings list what this program reads: lmtp is smtp, retry and discard are error.
std::string_view settings_name(std::string_view name);
/// Whether the program (a settings_name()) reads a setting that acts.
bool reads(const config::Row& row, std::string_view name);
const Program& row_of(std::string_view name);

}  // namespace pen::confine
