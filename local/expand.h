#pragma once
/// Follows the aliases of a local name to their ends. Pure but for the look-ups handed in.
///
/// Result:  where mail for the name goes. The caller delivers to the one user itself when that is all; else every
///          forward becomes a recipient of a new message, and only `direct` is delivered here: commands, files, and
///          names that came up again within their own alias (bob: bob, carol), which sent on would expand for ever.
/// Circles: an address in a forward file that leads back to its user, by himself, an extension, an alias or another
///          domain that is delivered to here, is followed at once and not sent on: the next round would find it
///          again. Of an alias that the message has been through already (`been`) only the user is taken: its others
///          have the mail.
/// Rights:  a command or file is used with the rights of the user it is for (forward files); in aliases with those of
///          the owner of the alias table, else of the :include: file; where that is root or nobody in particular, with
///          default_privs.
/// Bounds:  kMaxDepth aliases and files deep, ExpandRules::limit destinations, kMaxFiles files of kMaxFileBytes
///          together, of which one is in memory; a destination found twice counts once.
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

/// Text and whose word it is; nullopt: root's, or nobody's in particular.
struct OwnedText {
  std::string text;
  std::optional<uid_t> owner;
};

struct Lookups {
  /// alias_maps; nullopt: no such alias. An error: try later.
  std::function<Result<std::optional<OwnedText>>(const std::string& name)> alias;
  /// Content of an :include: file, read with the rights of `reader`; of `account` if it is not empty: several accounts
  /// may share a uid.
  std::function<Result<OwnedText>(const std::string& path, std::optional<uid_t> reader, const std::string& account)>
      include;
  /// Whether mail for an address comes here, by its domain and its route. Not set: what is in the recipient's domain
  /// does. An error: try later.
  std::function<Result<bool>(const std::string& address)> ours = {};
};

/// Where destinations may stand.
struct Places {
  bool alias = false, forward = false, include = false;
};

struct ExpandRules {
  std::string domain;      // of the recipient being expanded: addresses in it are local names too
  std::string delimiters;  // recipient_delimiter
  Places commands{.alias = true, .forward = true};  // allow_mail_to_commands
  Places files{.alias = true, .forward = true};     // allow_mail_to_files
  Places propagate{};                               // propagate_unmatched_extensions
  bool expand_owner = false;                        // expand_owner_alias
  bool reset_owner = false;                         // reset_owner_alias
  std::size_t limit = kMaxTargets;                  // alias_destination_limit
};

/// Delivered to here.
struct Direct {
  // user: as if it were alone, with the forward file; mailbox: "\\user", without
  enum class Kind { user, mailbox, command, file, refused };
  Kind kind = Kind::user;
  std::string text;            // user, with extension; command; path; why there is no delivery
  std::optional<uid_t> owner;  // command, file: with whose rights; nullopt: default_privs
  std::string sender;          // the owner- alias, "": the message's own
  // of whose forward file it is; counts before owner, which several accounts may share
  std::string account = {};
  bool operator==(const Direct&) const = default;
};
/// Sent on as one message.
struct Group {
  std::string sender;  // the owner- alias, "": the message's own
  std::vector<std::string> to;
  bool operator==(const Group&) const = default;
};

struct Expansion {
  // the whole expansion is this one user (perhaps the name itself)
  std::optional<std::string> only_user;
  std::string sender;  // for only_user
  std::vector<Direct> direct;
  std::vector<Group> forwards;
  // aliases that a forward file took in whole: an address each, for Delivered-To of what is sent on
  std::vector<std::string> through;
  bool discard = false;  // /dev/null was among the destinations
  bool aliased = false;  // at least one alias was followed
};

/// Local name in external form, with extension ("bob+lists"). Errors: those of the look-ups
/// (temporary); LocalError.
Result<Expansion> expand(const std::string& name, const ExpandRules& rules, const Lookups& lookups);

/// Who is told of what happens to mail for a name: by its owner- alias, as expand() has it for its destinations; "":
/// the sender. Errors: those of the look-ups.
Result<std::string> list_owner(const std::string& name, const ExpandRules& rules, const Lookups& lookups);

/// A user's forward file, found for him.
struct ForwardFile {
  std::string text;
  std::string user;
  uid_t uid = 0;
  std::string extension;  // "+lists": what the file's name left out
  // addresses that the message has been delivered to (Delivered-To), by anybody's word, and the recipient's
  std::vector<std::string> been = {};
};
/// The same from the content of a forward file. What leads back to the user is a Direct of kind user or mailbox; the
/// caller knows which forward files it has followed already.
Result<Expansion> expand_forward(const ForwardFile& file, const ExpandRules& rules, const Lookups& lookups);

}  // namespace pen::local
