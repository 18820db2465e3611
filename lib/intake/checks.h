#pragma once
/// header_checks, body_checks and their kin: tables that are asked about each header field and each line of a body, and
/// the actions that they answer with. And what is refused or taken out without a table: characters, 8-bit text where it
/// is not said or not permitted, encodings of what must not be encoded (StrictMime).
///
/// Use:     auto tables = CheckTables::open(specs);        // once per configuration; nullptr: nothing is to be checked
///          Checks checks(tables, Checks::Side::receiving, reporter);          // one per message
///          keep = checks.field(header, text, before);     // each field, as MimeWalker gives it; body() likewise
///          checks.refusal(), checks.take_effects()        // at the end
/// Rules:   REJECT, DISCARD, REDIRECT and PASS end all looking. Side::delivering has only the actions that change, drop
///          or note a line; of the others the report says that they do nothing.
/// Errors:  a table that cannot be read makes the message one for later (failed()): never an unchecked one.
/// Bounds:  what actions gather: kMaxCopies addresses. Time: look-ups that each take longer than kFairLookup may
///          together take kMaxSlowTime beyond it for one message; then it is one for later. One look-up is not cut
///          short.
/// Tables:  must answer at once: those that ask another process are refused by open().
/// Source:  header_checks(5) of Postfix; docs/content-checks.md.
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "lib/base/time.h"
#include "lib/intake/characters.h"
#include "lib/intake/effects.h"
#include "lib/mail/mime_walker.h"
#include "lib/map/map.h"

namespace pen::intake {

enum class CheckError { may_wait = 1 };
std::string_view error_module(CheckError);
std::string_view describe(CheckError e);

/// A header field that a table or a policy server gave, as it may stand in a header: lines that continue it stay,
/// with `eol` between them; any other control character that ends a line becomes a blank.
std::string field_lines(std::string_view text, std::string_view eol);

/// What a message is refused for with 5.6.0; only while MIME is looked at.
struct StrictMime {
  bool header = false;    // strict_7bit_headers: 8-bit text in a header, of a part too
  bool body = false;      // strict_8bitmime_body: 8-bit text in a body whose encoding is 7bit, said or not
  bool encoding = false;  // strict_mime_encoding_domain: a multipart or a message that is encoded
  bool any() const { return header || body || encoding; }
};

struct CheckTables {
  /// Table lists as main.cf has them.
  struct Specs {
    std::string header, mime, nested, body;
    std::string strip = {}, reject = {};  // message_strip_characters, message_reject_characters
    StrictMime strict = {};
    std::string prefix = {};                // of the settings' names, for messages: "", "smtp_", "lmtp_"
    std::uint64_t body_size_limit = 51200;  // of each part; 0: none
    mail::MimeWalker::Options walk = {};    // limits; mime: false with disable_mime_input_processing
    map::OpenOptions open = {};
  };
  map::MapList header, mime, nested, body;
  Characters strip, reject;
  StrictMime strict;
  std::string prefix;
  std::uint64_t body_size_limit = 0;
  mail::MimeWalker::Options walk;  // what the walker has to look for
  const Clock* clock = nullptr;    // measures look-ups

  /// Whether content is to be looked at before it is taken apart.
  bool raw() const { return strip.any() || reject.any(); }

  /// A look-up in them took so long that others should not have to wait for the next ones. Any thread.
  bool slow() const { return clock->now().time_since_epoch().count() < slow_until_.load(); }
  void found_slow() const { slow_until_ = (clock->now() + kSlowFor).time_since_epoch().count(); }

  /// nullptr: nothing is set. Errors: a specification that cannot be read, a table that may wait.
  static Result<std::shared_ptr<const CheckTables>> open(const Specs& specs);
  std::vector<Error> problems() const;
  /// Why they take longer here than they could, for the log; empty: they do not.
  std::string slower_because() const;

 private:
  static constexpr std::chrono::minutes kSlowFor{1};
  mutable std::atomic<SteadyTime::rep> slow_until_{0};
};

class Checks {
 public:
  enum class Side : std::uint8_t { receiving, delivering };
  /// What there is to say of a line. text: the action's, or empty.
  struct Note {
    std::string_view action;   // "reject", "warning", …
    std::string_view where;    // "header" or "body"
    std::string_view content;  // the line, cut and printable
    std::string_view text;
  };
  struct Reporter {
    std::function<void(const Note&)> note;
    std::function<void(const std::string&)> warn;  // what is wrong with a table
  };
  static constexpr std::size_t kMaxCopies = 1000;
  static constexpr milliseconds kFairLookup{10};
  static constexpr milliseconds kMaxSlowTime{2000};

  Checks(std::shared_ptr<const CheckTables> tables, Side side, Reporter reporter)
      : tables_(std::move(tables)), side_(side), reporter_(std::move(reporter)) {}

  /// A field, "\n" between its lines. May change it, and append whole lines with CRLF that go before it. False: it is
  /// dropped.
  bool field(mail::MimeWalker::Header header, std::string& text, std::string& before);
  /// A line of a body or a piece of one, which is at `offset` of its part.
  bool body(std::string& text, std::uint64_t offset, std::string& before);

  /// The walker does not go into a message as deep as this one is.
  void refuse_nesting();

  /// A piece of the content as it comes, before all else: what is left of it, in `spare` if it is not the same.
  std::string_view characters(std::string_view part, std::string& spare);
  /// For StrictMime: each field as it came, more of one, the end of a header, each piece of a body.
  void strict_field(std::string_view field);
  void strict_more(std::string_view text);
  void strict_header_end();
  void strict_body(std::string_view text);
  /// The present body must be seen to its end.
  bool watches_body() const { return looking_ && tables_->strict.body && body_is_7bit_; }

  /// "5.7.1 text" or "4.7.1 text" when the message is refused; empty: it is not.
  const std::string& refusal() const { return refusal_; }
  /// A table could not be read; what was wrong.
  const std::string& failed() const { return failed_; }
  bool discarded() const { return effects_.discard; }
  Effects take_effects() { return std::move(effects_); }
  const CheckTables& tables() const { return *tables_; }

 private:
  bool act(const map::MapList& maps, std::string_view setting, bool in_header, std::string& text, std::string& before);
  bool receiving(std::string_view word, std::string_view argument, std::string_view setting, std::string_view where,
                 const std::string& line);
  /// What is found; errors, and what makes the message one for later: nothing, and failed_ says why.
  std::optional<std::string> look_up(const map::MapList& maps, std::string_view setting, std::string_view key);
  void fail_with(std::string_view setting, std::string_view what);
  /// Ends the looking. kind: of the line in the log; what: is wrong; content: with which line.
  void refuse(std::string_view kind, std::string_view what, std::string_view content);
  void note(std::string_view action, std::string_view where, std::string_view line, std::string_view text) const;
  void warn(std::string_view setting, std::string_view what) const;

  std::shared_ptr<const CheckTables> tables_;
  Side side_;
  Reporter reporter_;
  bool looking_ = true;
  // of the header that is read, by its labels; the last one counts
  std::string type_, encoding_;
  bool body_is_7bit_ = true;  // the body that follows
  std::chrono::nanoseconds slow_time_{0};
  std::string refusal_, failed_;
  Effects effects_;
};

/// Who sent the message that a note is about, as log lines name them.
struct NoteOrigin {
  std::string_view queue_id, origin, sender, recipient, proto, helo;  // the last two may be empty
};
/// "QUEUEID: reject: header Subject: … from host[address]; from=<…> to=<…> proto=… helo=<…>: text", as Postfix's
/// cleanup says it and log analysers read it.
std::string note_line(const NoteOrigin& from, const Checks::Note& note);

}  // namespace pen::intake
