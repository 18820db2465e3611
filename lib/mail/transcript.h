#pragma once
/// What was said in an SMTP session, for the notice that a postmaster gets of its errors.
///
/// Use:     Transcript t(Transcript::Side::server);
///          t.command("MAIL FROM:<a@b>"); t.reply("250 2.1.0 Ok");    // lines without their ends, in order
///          t.error(ErrorClass::protocol);
///          if (!t.errors().among(told).empty()) send t.text();  t.clear();
/// Secrets: neither credentials nor content: what follows the mechanism's name in AUTH is "***", and so are challenges
///          and responses; these are given by response(), never by command(). The content of DATA and BDAT is never
///          given to it. A client whose AUTH, DATA or BDAT was refused may send the rest all the same: a server's
///          transcript shows of what follows only commands beyond doubt, until such a command is taken, or RSET or MAIL
///          before anything had to be hidden.
/// Bounds:  kMost bytes: the first half and the last are kept, with a line between them that says how much is missing.
/// Pure: no I/O, no clock.
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>

#include "lib/mail/command.h"
#include "lib/mail/error_class.h"

namespace pen::mail {

class Transcript {
 public:
  // enough for a hundred recipients with their replies
  static constexpr std::size_t kMost = 16 * 1024;
  static constexpr std::size_t kMaxLine = 500;

  enum class Side : std::uint8_t { server, client };  // who we are
  explicit Transcript(Side side) : side_(side) {}

  void command(std::string_view line);
  /// A line that answers a challenge of AUTH.
  void response();
  /// One line of a reply.
  void reply(std::string_view line);
  /// Several, each with its CRLF.
  void commands(std::string_view text);
  void replies(std::string_view text);
  void error(ErrorClasses classes) { errors_.add(classes); }
  ErrorClasses errors() const { return errors_; }
  /// Lines kept so far, those left out too.
  std::uint64_t lines() const { return lines_; }
  /// "In:  " and "Out: " lines, each with a line feed; printable ASCII.
  std::string text() const;
  /// A new one begins, without memory for now; what may not be told is still remembered.
  void clear();

 private:
  void add(bool ours, std::string_view line);

  Side side_;
  ErrorClasses errors_;
  std::string head_;
  std::deque<std::string> tail_;
  std::size_t tail_bytes_ = 0;
  std::uint64_t lines_ = 0, left_out_ = 0;
  Verb last_ = Verb::unknown;  // what a reply answers; of a client that sends ahead, AUTH at most
  bool hide_ = false;          // a server's: what is not a command beyond doubt
  bool hid_ = false;           // and there was something of the kind
};

}  // namespace pen::mail
