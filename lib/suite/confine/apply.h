#pragma once
/// Puts a Plan into force in this process, for good.
///
/// Use:     Confinement own(plan);
///          own.shed_bounding_set();     // still root: what set-id files could give is gone
///          … become mail_owner …
///          own.close();                 // before any thread: rights, limits, files, TCP ports
///          … open what is needed …
///          own.filter_calls(fd);        // from here on, in every thread
///          own.in_force().text()        // "privileges limits files calls", for master and `penstock status`
/// Kernel:  what it does not have is left out and is no error: kernel_offers() says it. Anything else that fails is a
///          problem to be logged; the program goes on with what is in force.
/// Report:  a refused system call is written to `fd` as one packet, "violation CALL (NUMBER)", once for each call; see
///          system_calls.h for what happens then.
/// Thread:  shed_bounding_set() and close() in a process that has no other; one Confinement a process.
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/result.h"
#include "lib/suite/confine/plan.h"

namespace pen::confine {

inline constexpr std::string_view kViolation = "violation ";
inline constexpr std::string_view kEnds = ": the process ends";

/// What a packet says of a refused call, "execve (59): the process ends"; nullopt: no handler of ours has written it.
/// What stands behind it in the same text does not count.
std::optional<std::string> told_violation(std::string_view packet);

struct Offers {
  int landlock = 0;      // version of its interface; 0: none
  bool ports = false;    // Landlock knows TCP ports
  bool scopes = false;   // Landlock keeps signals and abstract sockets inside
  bool filters = false;  // seccomp
  /// What is missing, as sentences for an administrator.
  std::vector<std::string> missing() const;
};
Offers kernel_offers();

struct InForce {
  bool privileges = false, limits = false, files = false, calls = false;
  /// "privileges limits files calls"; "nothing".
  std::string text() const;
};

/// The version of Landlock's interface; 0: none that is of use.
int landlock_version();

/// The directory of the running program.
std::string own_directory();
/// For make_plan() in this process.
Surroundings real_surroundings();

class Confinement {
 public:
  explicit Confinement(Plan plan) : plan_(std::move(plan)) {}
  void shed_bounding_set();
  void close();
  void filter_calls(int report);
  const InForce& in_force() const { return in_force_; }
  /// What went wrong since the last call.
  std::vector<std::string> take_problems() { return std::exchange(problems_, {}); }

 private:
  void note(const Result<void>& done, bool& flag);
  Plan plan_;
  InForce in_force_;
  std::vector<std::string> problems_;
};

/// For a helper that stays root: its permitted and effective capabilities become these at the most.
Result<void> keep_capabilities(Capabilities kept);

/// What a named file's rule is about (Place::Kind::named): its directory, and that of the file where links lead; the
/// file itself where the directory is too wide, or holds what must be kept out.
std::vector<std::string> widened(const std::string& path, const std::vector<std::string>& kept_out);
/// Whether the file has a rule alone, without its directory: a file that takes its place cannot be opened.
bool stands_alone(const std::string& path, const std::vector<std::string>& kept_out);

}  // namespace pen::confine
