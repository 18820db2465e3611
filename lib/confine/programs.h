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

namespace pen::confine {

/// Sockets of the internet, and whom TCP may reach.
enum class Network : std::uint8_t {
  none,   // no such socket
  named,  // none, unless settings name servers of tables, filters or the like: then those ports
  dns,    // name servers, and what settings name
  any,    // every host and port
};

/// What a program may make, change and remove.
using Writes = std::uint16_t;
inline constexpr Writes kNothing = 0;
inline constexpr Writes kQueueLog = 1;     // queue_log_directory
inline constexpr Writes kSpool = 2;        // spool_directory
inline constexpr Writes kData = 4;         // data_directory
inline constexpr Writes kMaildrop = 8;     // queue_directory/maildrop
inline constexpr Writes kCorrupt = 16;     // queue_directory/corrupt
inline constexpr Writes kTicketKeys = 32;  // data_directory/tls_ticket_keys
inline constexpr Writes kProbes = 64;      // address_verify_map
inline constexpr Writes kTested = 128;     // postscreen_cache_map, at a port of postscreen

/// Sets of capabilities, as the kernel numbers them.
using Capabilities = std::uint64_t;

enum class Kind : std::uint8_t {
  confined,  // runs as mail_owner, without rights, and starts nothing
  becomes,   // becomes users and runs what they name: stays root, with the capabilities for it
  unknown,   // has no row: no rights, and no more is known
};

struct Program {
  std::string_view name;
  Kind kind = Kind::unknown;
  Network network = Network::none;
  Writes writes = kNothing;
  Capabilities keeps = 0;
  // What it starts inherits its bounding set and must have it whole, for commands of master.cf may be set-id.
  bool whole_bounding_set = false;
};

std::span<const Program> programs();
/// Under which name the settings list what this program reads: lmtp is smtp, retry and discard are error.
std::string_view settings_name(std::string_view name);
const Program& row_of(std::string_view name);

}  // namespace pen::confine
