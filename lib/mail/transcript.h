#pragma once
/// The transcript of an SMTP session, for the notice that a postmaster gets of its errors.
///
/// Use:     Transcript t(Transcript::Side::server);
///          t.command("MAIL FROM:<a@b>"); t.reply("250 2.1.0 Ok");    // lines without their ends, in order
///          t.error(ErrorClass::protocol);
///          if (!t.errors().among(told).empty()) send t.text();  t.clear();
/// Secrets: neither credentials nor content are recorded (lib/mail/shown_dialogue.h). Report responses of AUTH by
///          response(), never by command(), and never pass the content of DATA and BDAT.
/// Bounds:  kMost bytes: the first half and the last are kept, with a line between them that says how much is missing.
/// Pure: no I/O, no clock.
#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <string_view>

#include "lib/mail/error_class.h"
#include "lib/mail/shown_dialogue.h"

namespace pen::mail {

class Transcript {
 public:
  // Enough for a hundred recipients with their replies.
  static constexpr std::size_t kMost = 16 * 1024;
  static constexpr std::size_t kMaxLine = 500;

  using Side = ShownDialogue::Side;
  explicit Transcript(Side side) : shown_(side) {}
  /// From now on each line is also passed on as it is recorded, without secrets; ours: we said it.
  void listen(std::function<void(bool ours, std::string_view line)> heard) { heard_ = std::move(heard); }

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

  ShownDialogue shown_;
  std::function<void(bool, std::string_view)> heard_;
  ErrorClasses errors_;
  std::string head_;
  std::deque<std::string> tail_;
  std::size_t tail_bytes_ = 0;
  std::uint64_t lines_ = 0, left_out_ = 0;
};

}  // namespace pen::mail
