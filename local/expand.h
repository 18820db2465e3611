#pragma once
/// Follows the aliases of a local name to their ends. Pure but for the look-ups handed in.
///
/// Result:  where mail for the name goes. The caller stores into the one mailbox itself when that is all; else
///          every forward becomes a recipient of one new message, and only `mailboxes` are written directly.
///          Those are names that came up again within their own alias (bob: bob, carol): sent on, they would
///          expand for ever.
/// Bounds:  kMaxDepth aliases deep, kMaxTargets destinations; a destination found twice counts once.
/// Source:  aliases(5); Postfix local(8) (owner- aliases, recipient_delimiter).
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/result.h"
#include "local/targets.h"

namespace pen::local {

inline constexpr std::size_t kMaxDepth = 50;

struct Lookups {
  /// alias_maps; nullopt: no such alias. An error: try later.
  std::function<Result<std::optional<std::string>>(const std::string& name)> alias;
  /// Content of an :include: file.
  std::function<Result<std::string>(const std::string& path)> include;
};

struct ExpandRules {
  std::string domain;      // of the recipient being expanded: addresses in it are local names too
  std::string delimiters;  // recipient_delimiter
};

struct Expansion {
  // the whole expansion is this one user (perhaps the name itself)
  std::optional<std::string> only_mailbox;
  std::vector<std::string> mailboxes;  // users to be stored for directly
  std::vector<std::string> forwards;   // addresses of the new message
  std::string owner;                   // its sender, "" : as it was
  bool discard = false;                // /dev/null was among the destinations
  bool aliased = false;                // at least one alias was followed
};

/// Local name in external form, with extension ("bob+lists"). Errors: those of the look-ups
/// (temporary); LocalError.
Result<Expansion> expand(const std::string& name, const ExpandRules& rules, const Lookups& lookups);
/// The same from the content of a user's forward file; the user's own name means the mailbox.
Result<Expansion> expand_forward(std::string_view text, const std::string& user,
                                 const ExpandRules& rules);

}  // namespace pen::local
