#pragma once
/// What a program asks of the process that stays root (helper.h): one packet of fixed size. It names a kind and an
/// account, and nothing else: paths, groups and commands stand in the Policy, which that process has from main.cf and
/// master.cf. A connection comes with its request, by descriptor; how its command ended is reported in one packet as
/// well.
///
/// Form:    "PEN" and a version; the kind, uid and gid, each four bytes, least significant first; the account's name,
///          ended and filled up with zero bytes. What a kind does not use is zero. An end: mark and version, the kind,
///          the code and the process id.
/// Use:     send_message(control, encode_request(request));   const auto request = parse_request(bytes);
/// Pure; fuzz/become_fuzz.cc.
#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace pen::mailbox {

struct Request {
  enum class Kind : std::uint8_t {
    worker = 1,  // a process that becomes one account for good (worker.h)
    postman,     // one that goes from account to account (postman.h)
    connection,  // one that runs the command of master.cf for a connection (connection.h)
  };
  Kind kind = Kind::worker;
  uid_t uid = 0;
  gid_t gid = 0;
  std::string name;
  bool operator==(const Request&) const = default;
};

inline constexpr std::size_t kMaxAccountName = 255;
inline constexpr std::size_t kRequestBytes = 4 + 3 * 4 + kMaxAccountName + 1;

/// The name must not be longer than kMaxAccountName.
std::string encode_request(const Request& request);
/// nullopt: any other size or form.
std::optional<Request> parse_request(std::string_view bytes);

/// How the command of a connection ended.
struct CommandEnd {
  enum class Kind : std::uint8_t {
    exited = 1,    // code: exit status
    signalled,     // code: the signal
    time_limit,    // its process group was killed
    not_executed,  // code: errno of exec
    not_started,   // code: errno of what comes before
  };
  Kind kind = Kind::exited;
  int code = 0;
  pid_t pid = 0;  // of the command; not_started: 0
  bool operator==(const CommandEnd&) const = default;
};

inline constexpr std::size_t kCommandEndBytes = 4 + 3 * 4;
inline constexpr int kLargestErrno = 4095;

std::string encode_command_end(const CommandEnd& end);
/// nullopt: any other size or form, or a code that the kind cannot have.
std::optional<CommandEnd> parse_command_end(std::string_view bytes);

}  // namespace pen::mailbox
