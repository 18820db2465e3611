#pragma once
/// header_checks, body_checks and similar: tables with each header field and each body line as key, and the actions in
/// their values. Also what is refused or removed without a table: characters, unlabelled or forbidden 8-bit text, and
/// encodings of parts that must not be encoded (StrictMime).
///
/// Use:     auto tables = CheckTables::open(specs);        // once per configuration; nullptr: nothing is to be checked
///          Checks checks(tables, Checks::Side::receiving, reporter);          // one per message
///          keep = checks.field(header, text, before);     // each field, as MimeWalker gives it; body() likewise
///          checks.refusal(), checks.take_effects()        // at the end
/// Rules:   REJECT, DISCARD, REDIRECT and PASS end all checks. Side::delivering has only the actions that change, drop
///          or log a line; for the others the report says that they have no effect.
/// Errors:  if a table cannot be read, the message is refused for now (failed()): it never passes unchecked.
/// Bounds:  at most kMaxCopies addresses from actions. Time: look-ups that each take longer than kFairLookup may
///          together exceed it by kMaxSlowTime for one message; then the message is refused for now. A single look-up
///          is never interrupted.
/// Tables:  must answer at once: open() refuses tables that other processes serve.
/// Source:  header_checks(5) of Postfix; docs/content-checks.md.
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "lib/base/time.h"
#include "lib/mail/mime_walker.h"
#include "lib/map/map.h"
#include "lib/receive/intake/characters.h"
#include "lib/receive/intake/effects.h"

namespace pen::intake {

enum class CheckError { may_wait = 1 };
std::string_view error_module(CheckError);
std::string_view describe(CheckError e);

/// Makes a field from a table or a policy server fit for a header: continuation lines stay, with `eol` between lines;
/// any other control character that ends a line becomes a blank.
std::string field_lines(std::string_view text, std::string_view eol);

/// Reasons to refuse a message with 5.6.0; effective only while MIME is processed.
struct StrictMime {
  bool header = false;    // strict_7bit_headers: 8-bit text in a header, also of a part
  bool body = false;      // strict_8bitmime_body: 8-bit text in a body that is 7bit by its label or without one
  bool encoding = false;  // strict_mime_encoding_domain: an encoded multipart or message
  bool any() const { return header || body || encoding; }
};

struct CheckTables {
  /// The lists of tables as written in main.cf.
  struct Specs {
    std::string header, mime, nested, body;
    std::string strip = {}, reject = {};  // message_strip_characters, message_reject_characters
    StrictMime strict = {};
    std::string prefix = {};                // before the settings' names in messages: "", "smtp_", "lmtp_"
    std::uint64_t body_size_limit = 51200;  // for each part; 0: no limit
    mail::MimeWalker::Options walk = {};    // limits; mime: false with disable_mime_input_processing
    map::OpenOptions open = {};
  };
  map::MapList header, mime, nested, body;
  Characters strip, reject;
  StrictMime strict;
  std::string prefix;
  std::uint64_t body_size_limit = 0;
  mail::MimeWalker::Options walk;  // what the walker must look for
  const Clock* clock = nullptr;    // times look-ups

  /// Whether a part that is nested too deep to be looked at must not pass. As in Postfix, body_checks alone let it.
  bool bounds_nesting() const { return !header.empty() || !mime.empty() || !nested.empty() || strict.any(); }
  /// Whether checks must see the content before it is taken apart.
  bool raw() const { return strip.any() || reject.any(); }

  /// Whether a recent look-up took so long that the next ones should not delay other messages. Any thread.
  bool slow() const { return clock->now().time_since_epoch().count() < slow_until_.load(); }
  void found_slow() const { slow_until_ = (clock->now() + kSlowFor).time_since_epoch().count(); }

  /// nullptr: no check is set. Errors: a malformed specification, a table that may wait.
  static Result<std::shared_ptr<const CheckTables>> open(const Specs& specs);
  std::vector<Error> problems() const;
  /// Why checks are slower here than they could be, for the log; empty: they are not.
  std::string slower_because() const;

 private:
  static constexpr std::chrono::minutes kSlowFor{1};
  mutable std::atomic<SteadyTime::rep> slow_until_{0};
};

class Checks {
 public:
  enum class Side : std::uint8_t { receiving, delivering };
  /// A note about a line. text: the action's text, or empty.
  struct Note {
    std::string_view action;   // "reject", "warning", …
    std::string_view where;    // "header" or "body"
    std::string_view content;  // the line, shortened and printable
    std::string_view text;
  };
  struct Reporter {
    std::function<void(const Note&)> note;
    std::function<void(const std::string&)> warn;  // reports what is wrong with a table
  };
  static constexpr std::size_t kMaxCopies = 1000;
  static constexpr milliseconds kFairLookup{10};
  static constexpr milliseconds kMaxSlowTime{2000};

  Checks(std::shared_ptr<const CheckTables> tables, Side side, Reporter reporter)
      : tables_(std::move(tables)), side_(side), reporter_(std::move(reporter)) {}

  /// Checks a field, with "\n" between its lines. May change it, and append whole lines with CRLF that go before it.
  /// False: the field is dropped.
  bool field(mail::MimeWalker::Header header, std::string& text, std::string& before);
  /// Checks a body line or a piece of one; offset: its position in its part.
  bool body(std::string& text, std::uint64_t offset, std::string& before);

  /// Refuses the message because its parts are nested deeper than the walker goes.
  void refuse_nesting();

  /// Removes and rejects characters in a piece of the content, before all other checks. Returns the remaining text; it
  /// is in `spare` if it differs.
  std::string_view characters(std::string_view part, std::string& spare);
  /// For StrictMime: each field as received, more of a field, the end of a header, each piece of a body.
  void strict_field(std::string_view field);
  void strict_more(std::string_view text);
  void strict_header_end();
  void strict_body(std::string_view text);
  /// Whether the present body must be checked to its end.
  bool watches_body() const { return looking_ && tables_->strict.body && body_is_7bit_; }

  /// "5.7.1 text" or "4.7.1 text" when the message is refused; empty: it is not.
  const std::string& refusal() const { return refusal_; }
  /// What was wrong with a table that could not be read.
  const std::string& failed() const { return failed_; }
  bool discarded() const { return effects_.discard; }
  Effects take_effects() { return std::move(effects_); }
  const CheckTables& tables() const { return *tables_; }

 private:
  bool act(const map::MapList& maps, std::string_view setting, bool in_header, std::string& text, std::string& before);
  bool receiving(std::string_view word, std::string_view argument, std::string_view setting, std::string_view where,
                 const std::string& line);
  /// The value found. After an error, or if the message must be refused for now: nothing, and failed_ has the reason.
  std::optional<std::string> look_up(const map::MapList& maps, std::string_view setting, std::string_view key);
  void fail_with(std::string_view setting, std::string_view what);
  /// Refuses the message and ends all checks. kind: the kind of log line; what: the reason; content: the line
  /// concerned.
  void refuse(std::string_view kind, std::string_view what, std::string_view content);
  void note(std::string_view action, std::string_view where, std::string_view line, std::string_view text) const;
  void warn(std::string_view setting, std::string_view what) const;

  std::shared_ptr<const CheckTables> tables_;
  Side side_;
  Reporter reporter_;
  bool looking_ = true;
  // Labels of the header being read; the last of each kind counts.
  std::string type_, encoding_;
  bool body_is_7bit_ = true;  // the body that follows
  std::chrono::nanoseconds slow_time_{0};
  std::string refusal_, failed_;
  Effects effects_;
};

/// The sender of the message that a note is about, in the form of log lines.
struct NoteOrigin {
  std::string_view queue_id, origin, sender, recipient, proto, helo;  // the last two may be empty
};
/// "QUEUEID: reject: header Subject: … from host[address]; from=<…> to=<…> proto=… helo=<…>: text", in the form of
/// Postfix's cleanup, which log analysers read.
std::string note_line(const NoteOrigin& from, const Checks::Note& note);

}  // namespace pen::intake
