#pragma once
/// Parses the words of a spawn service in master.cf: user= and argv=. Pure.
///
/// Form:    NAME unix - n n - 0 spawn user=policyd argv=/usr/bin/policyd-spf
///          argv= is last: all words after it belong to the command.
/// Source:  Postfix spawn(8).
#include <expected>
#include <string>
#include <vector>

namespace pen::spawner {

struct Options {
  std::string user, group;  // user=user:group; group empty: the user's own
  std::vector<std::string> argv;
};

/// Parses the words of master.cf after the program's name. The error is a sentence for the administrator.
std::expected<Options, std::string> parse_options(const std::vector<std::string>& words);

}  // namespace pen::spawner
