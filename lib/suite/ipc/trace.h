#pragma once
/// Conversation "trace": pentrace follows the dialogue of SMTP sessions as it happens (docs/trace.md).
///
/// Order:   Follow first, and once; answered by Following or Refused. Then Lines as they come, until the reader closes.
///          Replaced is the last message: new sessions go to another process, which serves the same socket.
/// Secrets: neither content nor credentials travel here: the program leaves them out.
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "lib/base/codec.h"
#include "lib/base/time.h"

namespace pen::ipc::trace {

inline constexpr std::string_view kName = "trace";
/// Where a process of a service of smtpd is asked, below queue_directory: its own socket is for mail, and several
/// processes share it. process: from 1 on.
inline std::string smtpd_socket(std::string_view service, unsigned process = 1) {
  return "private/trace." + std::string(service) + (process == 1 ? "" : "#" + std::to_string(process));
}

/// Which sessions: each list that is not empty must have a word that fits.
struct Filter {
  std::vector<std::string> clients = {};  // networks, host names, ".domain"; of sessions that come in
  std::vector<std::string> hosts = {};  // the same, of the other side, whatever side that is; a name given in EHLO too
  std::vector<std::string> domains = {};     // of the sender or of a recipient
  std::vector<std::string> recipients = {};  // addresses, "@domain"
  std::vector<std::string> queue_ids = {};
  PEN_FIELDS(clients, hosts, domains, recipients, queue_ids)
};
/// Words in one list, and bytes of one, at most.
inline constexpr std::size_t kMaxWords = 100, kMaxWord = 1000;

// reader → program
struct Follow {
  Filter filter;
  PEN_FIELDS(filter)
};

// program → reader
struct Following {
  std::string service;
  std::uint32_t pid = 0;
  PEN_FIELDS(service, pid)
};
struct Refused {
  std::string why;
  PEN_FIELDS(why)
};
/// received, sent: as the program sees it. mark: what happened to the session. end: the last mark of one.
enum class Kind : std::uint8_t { received, sent, mark, end };
struct Line {
  WallTime time{};
  std::string_view session;  // "PID-NUMBER", unique on this host
  Kind kind = Kind::mark;
  std::string_view text;
  PEN_FIELDS(time, session, kind, text)
};
/// So many lines were not sent, because the reader did not take those before them.
struct Dropped {
  std::uint64_t lines = 0;
  PEN_FIELDS(lines)
};
struct Replaced {
  std::uint8_t unused = 0;
  PEN_FIELDS(unused)
};

using ToProgram = std::variant<Follow>;
using FromProgram = std::variant<Following, Refused, Line, Dropped, Replaced>;

}  // namespace pen::ipc::trace
