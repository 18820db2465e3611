#pragma once
/// The right-hand side of an alias, and the lines of a .forward or :include: file. Pure.
///
/// Grammar: a list, as in a header: destinations separated by commas, semicolons, or white space. A quoted string is a
///          word of its own; an operator (one of @.%!:|) joins its neighbours, also over white space. Comments in ( )
///          nest; "…" keeps all of these together, \ keeps the next character. Each destination is one of:
///            user   user@domain   Name <user@domain>   group: a, b;
///            \user  "\user"                      that user's mailbox, no further expansion
///            |"command args"  "|command args"  |command    the quotes are the list's, not the command's: as in Postfix
///                                                what follows a blank that is not in quotes is another destination
///            /file/name   "/file name"   ~/file/name      ~: home directory of the user whose rights are used
///            :include:/file/name   ":include:/file name"
///          In files each line is a list, and lines that start with # are comments.
/// Lost:    nothing: text that is no address is kept as it was written, and its delivery will fail.
/// Bounds:  a list beyond the limit is an error as a whole, because mail to half a list is worse than late mail.
/// Source:  aliases(5), Postfix local(8); sendmail's aliases(5), forward(5).
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/result.h"

namespace pen::local {

enum class LocalError { too_many = 1, loop, untrusted, unreadable };
std::string_view error_module(LocalError);
std::string_view describe(LocalError);

inline constexpr std::size_t kMaxTargets = 10000;  // unless the caller gives another limit

struct AliasTarget {
  enum class Kind { address, mailbox, command, file, include };
  Kind kind = Kind::address;
  std::string text;  // address in external form; user name; command; path, perhaps beginning with "~"
  bool operator==(const AliasTarget&) const = default;
};

/// Parses one list.
Result<std::vector<AliasTarget>> parse_targets(std::string_view value, std::size_t limit = kMaxTargets);
Result<std::vector<AliasTarget>> parse_target_file(std::string_view text, std::size_t limit = kMaxTargets);

}  // namespace pen::local
