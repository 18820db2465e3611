#pragma once
/// What master.cf says of a pipe service: flags=, user=, argv= and the rest. Pure.
///
/// Form:    NAME unix - n n - 10 pipe flags=DRhu user=vmail argv=/usr/bin/maildrop -d ${recipient}
///          argv= is last: all that follows belongs to the command.
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
  std::string root;  // chroot=
  std::string directory = "/";
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

  /// One recipient at a time: a field or a word of the command is of one.
  bool one_by_one() const { return delivered_to || original_to; }
};

/// The words of master.cf behind the program's name. The error is a sentence for the administrator.
std::expected<Options, std::string> parse_options(const std::vector<std::string>& words);

/// "\n", "\r" and the like, as eol= has them.
std::string unescape(std::string_view text);

}  // namespace pen::pipes
