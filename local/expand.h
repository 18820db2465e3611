#pragma once
/// Follows the aliases of a local name to their ends. Pure but for the look-ups passed in.
///
/// Result:  where mail for the name goes. If that is one user, the caller delivers to the user itself. Otherwise
///          every forward becomes a recipient of a new message, and only `direct` is delivered here: commands, files,
///          and names that came up again within their own alias (bob: bob, carol), which would expand for ever if
///          sent on.
/// Loops:   an address in a forward file that leads back to its own user (directly, by an extension, an alias or
///          another domain that is local here) is followed at once instead of being sent on, or the next round would
///          find it again. Of an alias that the message has passed already (`been`) only that user is taken: the
///          others have the mail.
/// Rights:  a command or file of a forward file is used with the user's rights; of an alias, with those of the owner
///          of the alias table or :include: file. If that is root or nobody in particular, default_privs is used.
/// Bounds:  kMaxDepth nested aliases and files, ExpandRules::limit destinations, kMaxFiles files of kMaxFileBytes in
///          all, one of them in memory at a time. A destination found twice counts once.
/// Source:  aliases(5); Postfix local(8) (owner- aliases, delivery rights, recipient_delimiter),
///          allow_mail_to_commands, allow_mail_to_files, expand_owner_alias, reset_owner_alias,
///          propagate_unmatched_extensions.
#include <sys/types.h>

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/result.h"
#include "local/targets.h"

namespace pen::local {

inline constexpr std::size_t kMaxDepth = 50;
inline constexpr std::size_t kMaxFiles = 200;  // :include: files of one expansion; each costs a process
inline constexpr std::size_t kMaxFileBytes = 16 * 1024 * 1024;  // of these together

/// Text with its owner; nullopt: root, or nobody in particular.
struct OwnedText {
  std::string text;
  std::optional<uid_t> owner;
};

struct Lookups {
  /// Looks up alias_maps; nullopt: no such alias. An error: try later.
  std::function<Result<std::optional<OwnedText>>(const std::string& name)> alias;
  /// Reads an :include: file with the rights of `reader`, or of `account` if that is not empty: several accounts may
  /// share a uid.
  std::function<Result<OwnedText>(const std::string& path, std::optional<uid_t> reader, const std::string& account)>
      include;
  /// Whether mail for an address is delivered here, by its domain and route. Not set: addresses in the recipient's
  /// domain are. An error: try later.
  std::function<Result<bool>(const std::string& address)> ours = {};
};

/// In which files a kind of destination is allowed.
struct Places {
  bool alias = false, forward = false, include = false;
};

struct ExpandRules {
  std::string domain;      // of the recipient being expanded: its addresses are local names too
  std::string delimiters;  // recipient_delimiter
  Places commands{.alias = true, .forward = true};  // allow_mail_to_commands
  Places files{.alias = true, .forward = true};     // allow_mail_to_files
  Places propagate{};                               // propagate_unmatched_extensions
  bool expand_owner = false;                        // expand_owner_alias
  bool reset_owner = false;                         // reset_owner_alias
  bool owner_special = true;                        // owner_request_special
  std::size_t limit = kMaxTargets;                  // alias_destination_limit
};

/// A destination that is delivered here.
struct Direct {
  // user: a normal delivery, with the forward file; mailbox: "\\user", without it
  // loop: an alias that leads back to itself by way of others
  enum class Kind { user, mailbox, command, file, refused, loop };
  Kind kind = Kind::user;
  std::string text;            // user, with extension; command; path; why there is no delivery; alias
  std::optional<uid_t> owner;  // for command and file: the account with the rights; nullopt: default_privs
  std::string sender;          // the owner- alias, "": the message's own
  // The user of the forward file; it counts before owner, because accounts may share a uid.
  std::string account = {};
  bool operator==(const Direct&) const = default;
};
/// Destinations that are sent on as one message.
struct Group {
  std::string sender;  // the owner- alias, "": the message's own
  std::vector<std::string> to;
  bool operator==(const Group&) const = default;
};

struct Expansion {
  // The whole expansion is this one user (perhaps the name itself).
  std::optional<std::string> only_user;
  std::string sender;  // for only_user
  std::vector<Direct> direct;
  std::vector<Group> forwards;
  // Aliases that a forward file took in whole, as addresses, for Delivered-To of the message sent on.
  std::vector<std::string> through;
  bool discard = false;  // /dev/null was among the destinations
  bool aliased = false;  // at least one alias was followed
};

/// Expands a local name in external form, with extension ("bob+lists"). Errors: those of the look-ups (temporary);
/// LocalError.
Result<Expansion> expand(const std::string& name, const ExpandRules& rules, const Lookups& lookups);

/// The owner- alias that gets failures for a name, as expand() finds it for the destinations; "": the sender.
/// Errors: those of the look-ups.
Result<std::string> list_owner(const std::string& name, const ExpandRules& rules, const Lookups& lookups);

/// A user's forward file.
struct ForwardFile {
  std::string text;
  std::string user;
  uid_t uid = 0;
  std::string extension;  // "+lists": what the file's name left out
  // Addresses in all Delivered-To fields of the message, our own or not, and the recipient's.
  std::vector<std::string> been = {};
};
/// Expands the content of a forward file. An address that leads back to the user is a Direct of kind user or mailbox;
/// the caller knows which forward files it has followed already.
Result<Expansion> expand_forward(const ForwardFile& file, const ExpandRules& rules, const Lookups& lookups);

}  // namespace pen::local
