#include "lib/suite/confine/apply.h"

#include <linux/seccomp.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <filesystem>

#include "lib/suite/confine/parts.h"

namespace pen::confine {
namespace {

constexpr int kPorts = 4, kScopes = 6;

bool has_filters() {
  std::uint32_t action = SECCOMP_RET_TRAP;
  return ::syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action) == 0;
}

}  // namespace

std::vector<std::string> Offers::missing() const {
  std::vector<std::string> out;
  if (landlock == 0)
    out.emplace_back("no Landlock here: programs are not confined to the files and TCP ports that they need");
  else if (!ports)
    out.emplace_back("Landlock of this kernel knows no TCP ports: programs may connect to any");
  if (landlock != 0 && ports && !scopes)
    out.emplace_back(
        "Landlock of this kernel does not keep signals inside: programs may signal others of their account "
        "if they may make the system call");
  if (!filters) out.emplace_back("no system call filters here (seccomp): programs may make any");
  return out;
}

std::optional<std::string> told_violation(std::string_view packet) {
  constexpr std::size_t kLongestName = 31, kLongestNumber = 20;
  if (!packet.starts_with(kViolation)) return std::nullopt;
  const std::string_view told = packet.substr(kViolation.size());
  const auto in_name = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_'; };
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  std::size_t at = 0;
  while (at < told.size() && in_name(told[at])) ++at;
  if (at == 0 || at > kLongestName || !told.substr(at).starts_with(" (")) return std::nullopt;
  const std::size_t number = at += 2;
  while (at < told.size() && is_digit(told[at])) ++at;
  if (at == number || at - number > kLongestNumber || !told.substr(at).starts_with(")")) return std::nullopt;
  ++at;
  if (told.substr(at).starts_with(kEnds)) at += kEnds.size();
  return std::string(told.substr(0, at));
}

Offers kernel_offers() {
  Offers out;
  out.landlock = landlock_version();
  out.ports = out.landlock >= kPorts;
  out.scopes = out.landlock >= kScopes;
  out.filters = has_filters();
  return out;
}

std::string InForce::text() const {
  std::string out;
  const auto add = [&](bool is, const char* word) {
    if (is) out += (out.empty() ? "" : " ") + std::string(word);
  };
  add(privileges, "privileges");
  add(limits, "limits");
  add(files, "files");
  add(calls, "calls");
  return out.empty() ? "nothing" : out;
}

std::string own_directory() {
  std::error_code error;
  return std::filesystem::read_symlink("/proc/self/exe", error).parent_path().string();
}

Surroundings real_surroundings() {
  Surroundings out{.machine = real_machine(), .own_directory = own_directory()};
#ifdef PEN_SANITIZED
  out.sanitized = true;
#endif
  return out;
}

void Confinement::note(const Result<void>& done, bool& flag) {
  flag = done.has_value();
  if (!done) problems_.push_back(done.error().message());
}

void Confinement::shed_bounding_set() {
  if (!plan_.privileges || plan_.whole_bounding_set || ::geteuid() != 0) return;
  bool done = false;
  note(drop_bounding_set(plan_.keeps), done);
}

void Confinement::close() {
  const bool stays_root = ::geteuid() == 0;
  if (plan_.limits) {
#ifdef PEN_SANITIZED
    constexpr bool kDumpable = true;
#else
    constexpr bool kDumpable = false;
#endif
    note(set_limits(plan_.kind, kDumpable), in_force_.limits);
  }
  if (plan_.privileges) {
    // A program that stays root and does not become users was set so in master.cf: it needs the rights that it was
    // given.
    const bool as_told = stays_root && plan_.kind != Kind::becomes;
    const auto kept = as_told ? Result<void>{} : keep_capabilities(plan_.keeps);
    note(kept, in_force_.privileges);
  }
  const bool wants_nothing_more =
      plan_.kind != Kind::becomes && (plan_.privileges || plan_.files || plan_.system_calls);
  if (wants_nothing_more) {
    bool done = false;
    note(take_no_more_rights(), done);
    in_force_.privileges = in_force_.privileges && done;
  }
  if (!plan_.files) return;
  const auto restricted = restrict_files(plan_);
  if (!restricted) problems_.push_back(restricted.error().message());
  in_force_.files = restricted.value_or(false);
}

void Confinement::filter_calls(int report) {
  if (!plan_.system_calls) return;
  const auto restricted = restrict_calls(plan_, report);
  if (!restricted) problems_.push_back(restricted.error().message());
  in_force_.calls = restricted.value_or(false);
}

}  // namespace pen::confine
