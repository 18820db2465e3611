#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>

#include "lib/base/fd.h"
#include "lib/suite/confine/apply.h"
#include "lib/suite/confine/parts.h"

namespace pen::confine {
namespace {

namespace fs = std::filesystem;

// The kernel's interface. The headers of Debian 12 know its beginnings only.
struct RulesetAttributes {
  std::uint64_t handled_fs = 0, handled_net = 0, scoped = 0;
};
struct [[gnu::packed]] BelowAttributes {
  std::uint64_t allowed = 0;
  std::int32_t parent = -1;
};
struct PortAttributes {
  std::uint64_t allowed = 0, port = 0;
};
constexpr std::uint32_t kAskVersion = 1;
constexpr int kRuleBelow = 1, kRulePort = 2;

constexpr std::uint64_t bit(unsigned n) { return std::uint64_t{1} << n; }
constexpr std::uint64_t kWriteFile = bit(1), kReadFile = bit(2), kReadDirectory = bit(3),
                        kMakeDevices = bit(6) | bit(11), kMakeSocket = bit(9), kRefer = bit(13), kTruncate = bit(14),
                        kControlDevice = bit(15);
constexpr std::uint64_t kRead = kReadFile | kReadDirectory;
constexpr std::uint64_t kBindTcp = bit(0), kConnectTcp = bit(1);
constexpr std::uint64_t kAbstractSockets = bit(0), kSignals = bit(1);

// The first version cannot move files between directories, which pickup does.
constexpr int kMoves = 2, kTruncates = 3, kPorts = 4, kControlsDevices = 5, kScopes = 6;

std::uint64_t handled(int version) {
  std::uint64_t all = kRefer - 1;  // the first version's, 0 to 12
  if (version >= kMoves) all |= kRefer;
  if (version >= kTruncates) all |= kTruncate;
  if (version >= kControlsDevices) all |= kControlDevice;
  return all;
}

/// Executing is in no rule: modules are mapped, not executed.
std::uint64_t allowed(bool writable, bool directory, int version) {
  std::uint64_t out = kRead;
  if (writable) out = handled(version) & ~(bit(0) | kMakeDevices | kMakeSocket | kControlDevice);
  if (!directory) out &= kReadFile | kWriteFile | kTruncate;
  return out;
}

class Ruleset {
 public:
  static Result<Ruleset> make(int version, bool any_port) {
    RulesetAttributes attributes{.handled_fs = handled(version)};
    if (version >= kPorts) attributes.handled_net = kBindTcp | (any_port ? 0 : kConnectTcp);
    if (version >= kScopes) attributes.scoped = kAbstractSockets | kSignals;
    const std::size_t size = version >= kScopes  ? sizeof attributes
                             : version >= kPorts ? 2 * sizeof(std::uint64_t)
                                                 : sizeof(std::uint64_t);
    Fd fd(static_cast<int>(::syscall(SYS_landlock_create_ruleset, &attributes, size, 0)));
    if (!fd) return fail_errno("rules of files");
    return Ruleset(std::move(fd), version);
  }
  /// What is not there, or is closed to this account anyway, needs no rule.
  Result<void> below(const std::string& path, bool writable) { return rule(path, writable, ~std::uint64_t{0}); }
  /// Listing directories alone, here and below.
  Result<void> names_in(const std::string& path) { return rule(path, false, kReadDirectory); }
  Result<void> rule(const std::string& path, bool writable, std::uint64_t only) {
    const Fd fd(::open(path.c_str(), O_PATH | O_CLOEXEC));
    struct stat st{};
    if (!fd || ::fstat(fd.get(), &st) != 0) return {};
    BelowAttributes made;
    made.parent = fd.get();
    made.allowed = allowed(writable, S_ISDIR(st.st_mode), version_) & only;
    if (::syscall(SYS_landlock_add_rule, fd_.get(), kRuleBelow, &made, 0) != 0) return fail_errno("rule of " + path);
    return {};
  }
  Result<void> port(std::uint64_t rights, std::uint16_t number) {
    if (version_ < kPorts) return {};
    const PortAttributes rule{.allowed = rights, .port = number};
    if (::syscall(SYS_landlock_add_rule, fd_.get(), kRulePort, &rule, 0) != 0) return fail_errno("rule of a TCP port");
    return {};
  }
  Result<void> enforce() {
    if (::syscall(SYS_landlock_restrict_self, fd_.get(), 0) != 0) return fail_errno("rules of files");
    return {};
  }

 private:
  Ruleset(Fd fd, int version) : fd_(std::move(fd)), version_(version) {}
  Fd fd_;
  int version_;
};

// Directories that hold what is of no concern to a mail system, however a setting names something in them.
constexpr std::array<std::string_view, 17> kWide = {
    "/",     "/var", "/var/lib", "/var/spool", "/var/mail", "/var/log", "/var/tmp", "/var/run", "/home",
    "/root", "/tmp", "/run",     "/srv",       "/opt",      "/mnt",     "/media",   "/dev/shm"};
constexpr std::array<std::string_view, 5> kEndings = {"", ".lmdb", ".cdb", ".db", ".sqlite-wal"};

bool holds(const std::string& directory, const std::string& inner) {
  return inner == directory || inner.starts_with(directory == "/" ? directory : directory + "/");
}

std::string real(const std::string& path) {
  std::error_code error;
  const fs::path found = fs::weakly_canonical(path, error);
  std::string text = error ? path : found.string();
  while (text.size() > 1 && text.ends_with('/')) text.pop_back();
  return text;
}

bool is_directory(const std::string& path) {
  struct stat st{};
  return ::stat(path.c_str(), &st) == 0 && S_ISDIR(st.st_mode);
}

std::vector<std::string> reals(const std::vector<std::string>& paths) {
  std::vector<std::string> out;
  for (const std::string& one : paths) out.push_back(real(one));
  return out;
}

/// inner: what no rule for something else may open.
bool too_wide(const std::string& directory, const std::vector<std::string>& inner) {
  return std::ranges::count(kWide, directory) != 0 ||
         std::ranges::any_of(inner, [&](const std::string& one) { return holds(directory, one); });
}

/// Made while they can be: afterwards only what is in them can.
void make(const Place& place) {
  if (place.kind == Place::Kind::directory) (void)::mkdir(place.path.c_str(), 0700);
  if (place.kind != Place::Kind::file) return;
  const Fd fd(::open(place.path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600));
}

/// A tree without what must stay hidden in it: then each of its entries has a rule of its own, and what takes the place
/// of one of them later has none. hidden: real paths.
Result<void> add_tree(Ruleset& rules, const std::string& path, bool writable, const std::vector<std::string>& hidden) {
  const auto hides = [&](const std::string& at) {
    return std::ranges::any_of(hidden, [&](const std::string& one) { return holds(at, one); });
  };
  if (hidden.empty() || !hides(real(path))) return rules.below(path, writable);
  std::vector<std::string> open{real(path)};
  while (!open.empty()) {
    const std::string at = std::move(open.back());
    open.pop_back();
    std::error_code error;
    PEN_TRY(rules.names_in(at));
    for (auto entry = fs::directory_iterator(at, error); !error && entry != fs::directory_iterator();
         entry.increment(error)) {
      std::error_code ignored;
      if (entry->is_symlink(ignored)) continue;  // the rule would be of the place that it leads to
      const std::string one = entry->path().string();
      if (!hides(one))
        PEN_TRY(rules.below(one, writable));
      else if (entry->is_directory(ignored))
        open.push_back(one);
    }
  }
  return {};
}

Result<void> add(Ruleset& rules, const Place& place, const std::vector<std::string>& kept_out,
                 const std::vector<std::string>& hidden) {
  if (place.kind != Place::Kind::named) {
    make(place);
    return add_tree(rules, place.path, place.writable, hidden);
  }
  for (const std::string& path : widened(place.path, kept_out)) PEN_TRY(add_tree(rules, path, place.writable, hidden));
  return {};
}

}  // namespace

std::vector<std::string> widened(const std::string& path, const std::vector<std::string>& kept_out) {
  const std::vector<std::string> inner = reals(kept_out);
  std::vector<std::string> out;
  const auto add_one = [&](std::string found) {
    if (std::ranges::count(out, found) == 0) out.push_back(std::move(found));
  };
  const std::string target = real(path);
  if (is_directory(target)) {
    if (!too_wide(target, inner)) add_one(target);
    return out;
  }
  // Where the name stands, and where the file is: a certificate's name may be a link that is changed.
  const std::string at = real(fs::path(path).parent_path());
  for (const std::string& directory : {at, fs::path(target).parent_path().string()}) {
    if (!too_wide(directory, inner)) {
      add_one(directory);
      continue;
    }
    const std::string name = directory == at ? (fs::path(at) / fs::path(path).filename()).string() : target;
    for (const auto& ending : kEndings) add_one(name + std::string(ending));
  }
  return out;
}

bool stands_alone(const std::string& path, const std::vector<std::string>& kept_out) {
  return path.starts_with('/') && !is_directory(path) && too_wide(real(fs::path(path).parent_path()), reals(kept_out));
}

int landlock_version() {
  const long version = ::syscall(SYS_landlock_create_ruleset, nullptr, 0, kAskVersion);
  return version < kMoves ? 0 : static_cast<int>(version);
}

Result<bool> restrict_files(const Plan& plan) {
  const int version = landlock_version();
  if (version == 0) return false;
  PEN_TRY_ASSIGN(Ruleset rules, Ruleset::make(version, plan.any_port));
  const std::vector<std::string> hidden = reals(plan.hidden);
  for (const Place& place : plan.places) PEN_TRY(add(rules, place, plan.kept_out, hidden));
  // An address of this host, with a port that the kernel chooses, may be taken for connections outwards.
  if (plan.any_port || !plan.ports.empty()) PEN_TRY(rules.port(kBindTcp, 0));
  if (!plan.any_port)
    for (const std::uint16_t port : plan.ports) PEN_TRY(rules.port(kConnectTcp, port));
  PEN_TRY(rules.enforce());
  return true;
}

}  // namespace pen::confine
