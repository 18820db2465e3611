#pragma once
/// Parses the words of a pipe service in master.cf: flags=, user=, argv= and the rest. Pure.
///
/// Form:    NAME unix - n n - 10 pipe flags=DRhu user=vmail argv=/usr/bin/maildrop -d ${recipient}
///          argv= is last: all words after it belong to the command.
/// Source:  Postfix pipe(8).
#include <cstdint>
#include <expected>
#include <string>
#include <string_view>
#include <vector>

namespace pen::pipes {

struct Options {
  std::string user, group;  // user=user:group; group empty: the user's own
  std::vector<std::string> argv;
  std::string root;       // chroot=
  std::string directory;  // directory=; "": not given
  std::string eol = "\n";
  std::string null_sender = "MAILER-DAEMON";
  std::uint64_t size_limit = 0;  // 0: none
  // flags=
  bool empty_line_at_end = false;  // B
  bool delivered_to = false;       // D
  bool from_line = false;          // F
  bool original_to = false;        // O
  bool return_path = false;        // R
  bool final_delivery = false;     // X
  bool fold_domain = false;        // h
  bool fold_user = false;          // u
  bool quote = false;              // q
  bool double_dots = false;        // .
  bool quote_from = false;         // >

  /// True: the command takes one recipient at a time, because a field or an argument is for one.
  bool one_by_one() const { return delivered_to || original_to; }
};

/// Parses the words of master.cf after the program's name. The error is a sentence for the administrator.
std::expected<Options, std::string> parse_options(const std::vector<std::string>& words);

/// Replaces "\n", "\r" and the like, as used in eol=.
std::string unescape(std::string_view text);

}  // namespace pen::pipes
