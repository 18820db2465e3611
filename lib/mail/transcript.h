#pragma once
/// The transcript of an SMTP session, for the notice that a postmaster gets of its errors.
///
/// Use:     Transcript t(Transcript::Side::server);
///          t.command("MAIL FROM:<a@b>"); t.reply("250 2.1.0 Ok");    // lines without their ends, in order
///          t.error(ErrorClass::protocol);
///          if (!t.errors().among(told).empty()) send t.text();  t.clear();
/// Secrets: neither credentials nor content are recorded. Text after the mechanism's name in AUTH is shown as "***",
///          and so are challenges and responses; report responses by response(), never by command(). Never pass the
///          content of DATA and BDAT. A client whose AUTH, DATA or BDAT was refused may send the rest anyway. So a
///          server's transcript then shows only undoubted commands, until such a command is accepted, or until RSET or
///          MAIL comes before anything had to be hidden.
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
  // Enough for a hundred recipients with their replies.
  static constexpr std::size_t kMost = 16 * 1024;
  static constexpr std::size_t kMaxLine = 500;

  enum class Side : std::uint8_t { server, client };  // which side we are
  explicit Transcript(Side side) : side_(side) {}

  void command(std::string_view line);
  /// Records a line that answers a challenge of AUTH.
  void response();
  /// Records one line of a reply.
  void reply(std::string_view line);
  /// Records several lines, each with its CRLF.
  void commands(std::string_view text);
  void replies(std::string_view text);
  void error(ErrorClasses classes) { errors_.add(classes); }
  ErrorClasses errors() const { return errors_; }
  /// The number of lines so far, including those left out.
  std::uint64_t lines() const { return lines_; }
  /// "In:  " and "Out: " lines, each with a line feed; printable ASCII.
  std::string text() const;
  /// Starts a new transcript that holds no memory for now. It still remembers what must be hidden.
  void clear();

 private:
  void add(bool ours, std::string_view line);

  Side side_;
  ErrorClasses errors_;
  std::string head_;
  std::deque<std::string> tail_;
  std::size_t tail_bytes_ = 0;
  std::uint64_t lines_ = 0, left_out_ = 0;
  Verb last_ = Verb::unknown;  // the command that a reply answers; of a client that pipelines, only AUTH matters
  bool hide_ = false;          // (server) hide everything that is not an undoubted command
  bool hid_ = false;           // (server) something was hidden
};

}  // namespace pen::mail
