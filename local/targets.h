#pragma once
/// The right-hand side of an alias, and the lines of a .forward or :include: file. Pure.
///
/// Grammar: destinations separated by commas or line ends, comments in ( ); each one of
///            user   user@domain   <user@domain>
///            \user                            that user's mailbox, no further expansion
///            "|command args"   /file/name   :include:/file/name
///            ~/file/name      below the home directory of whose rights are used
///          In files, lines that start with # are comments.
/// Bounds:  the limit given; what lies beyond makes the whole value an error, because mail to half a list is worse
///          than late mail.
/// Source:  aliases(5), Postfix local(8).
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/result.h"

namespace pen::local {

enum class LocalError { too_many = 1, loop, untrusted, unreadable };
std::string_view error_module(LocalError);
std::string_view describe(LocalError);

inline constexpr std::size_t kMaxTargets = 10000;  // where nothing else is said

struct AliasTarget {
  enum class Kind { address, mailbox, command, file, include };
  Kind kind = Kind::address;
  std::string text;  // address in external form; user name; command; path, perhaps from "~" on
  bool operator==(const AliasTarget&) const = default;
};

Result<std::vector<AliasTarget>> parse_targets(std::string_view value,
                                               std::size_t limit = kMaxTargets);
Result<std::vector<AliasTarget>> parse_target_file(std::string_view text,
                                                   std::size_t limit = kMaxTargets);

}  // namespace pen::local
