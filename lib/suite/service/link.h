#pragma once
/// The status socket between master and one program (SOCK_SEQPACKET, descriptor kStatusFd in the program).
///
/// Words:   one packet each. Program to master: "ready" once it can serve; or "failed " and why, before it ends;
///          "confined " and what is in force of its confinement, before "ready"; "violation " and a system call that
///          the kernel refused (lib/suite/confine/apply.h). Master to program: "drain" (accept nothing new, finish
///          what is in hand, exit), "wakeup" (the service's timer), "log" with a descriptor: the log file, opened
///          again, because most programs may not open it. The answer "logged" says that no line goes to the former
///          file any more. "kept": the service manager holds a copy of master's end for the next master. Unknown
///          words are ignored.
/// End:     when the program dies master reads the end; when master dies the program reads it, and exits at once, so
///          that a new master finds the field clear. Where the end is kept nothing is read: the program goes on, and
///          the next master takes it over (docs/upgrade.md).
#include <cstddef>
#include <string_view>

namespace pen::service {

inline constexpr std::string_view kReady = "ready";
inline constexpr std::string_view kDrain = "drain";
inline constexpr std::string_view kWakeup = "wakeup";
inline constexpr std::string_view kLog = "log";
inline constexpr std::string_view kLogged = "logged";
inline constexpr std::string_view kKept = "kept";
inline constexpr std::string_view kFailed = "failed ";      // what follows is a sentence part
inline constexpr std::string_view kConfined = "confined ";  // what follows is InForce::text()
inline constexpr std::size_t kMaxWord = 1024;

}  // namespace pen::service
