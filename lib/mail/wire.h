#pragma once
/// Turns content received over SMTP into the stored form: CRLF line ends only, not dot-stuffed.
///
/// Use:     DataScanner scan(policy);
///          while (!scan.done()) { auto n = scan.feed(bytes, sink); … }   // n consumed; done() after CRLF.CRLF
///          BdatScanner scan(policy); scan.feed(chunk, sink); …; scan.finish(sink);
///          A sink gets lines: text(part) any number of times, then line_end(). FactsCollector is a sink, and others
///          pass their input on to it. A sink that says takes_lines() between two lines gets plain lines
///          (plain_lines.h) in one piece, by lines(text, facts).
/// Rules:   only CRLF.CRLF ends DATA (RFC 5321 sections 2.3.8 and 4.1.1.4), unless the policy accepts any line end
///          there. A bare LF ends a line of content and is counted. A bare CR is counted and becomes a space, unless
///          the policy keeps it; a kept one can never again be told from half a line end (Postfix's
///          cleanup_replace_stray_cr_lf). CRs in front of a CRLF vanish in place of becoming spaces: the header of a
///          client that ends every line so would have no end. Only the last kMostCrs of them, so that a stranger's run
///          of CRs is content as it comes. A line of one dot that does not end DATA stays a line of one dot.
/// Split:   however the input is cut into feeds, the sink gets the same calls, apart from how text() is cut.
/// Bounds:  no memory; the sink bounds what it keeps.
#include <algorithm>
#include <concepts>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "lib/mail/envelope.h"
#include "lib/mail/plain_lines.h"

namespace pen::mail {

inline constexpr std::size_t kMostCrs = 64;  // in front of a line end, as one

struct WirePolicy {
  bool replace_bare_cr = true;
  /// LF after a line of one dot ends DATA too: for clients that know no better and that nobody can smuggle mail
  /// through.
  bool any_end_of_data = false;
};

/// A sink that can take many lines at once.
template <class Sink>
concept TakesLines = requires(Sink& sink, std::string_view text, const PlainLines& run) {
  { sink.takes_lines() } -> std::same_as<bool>;
  sink.lines(text, run);
};

/// The part that both scanners share: cuts raw bytes into lines.
class LineCutter {
 public:
  explicit LineCutter(WirePolicy policy) : policy_(policy) {}
  std::uint64_t bare_lf() const { return bare_lf_; }
  std::uint64_t bare_cr() const { return bare_cr_; }

 protected:
  /// Passes on text of the present line up to and including its LF, or all of `in`. Returns the number of bytes taken;
  /// at_start_ says whether a line ended, last_crlf_ whether it ended in CRLF.
  template <class Sink>
  std::size_t cut(std::string_view in, Sink& sink) {
    std::size_t before = 0;
    if (crs_pending_ > 0) {
      before = std::min(in.find_first_not_of('\r'), in.size());
      crs_pending_ += before;
      stray_crs(sink, kMostCrs);
      if (before == in.size()) return before;
      if (in[before] == '\n') {
        end_line(sink, true);
        return before + 1;
      }
      stray_crs(sink);
      in.remove_prefix(before);
    }
    const auto* lf = static_cast<const char*>(std::memchr(in.data(), '\n', in.size()));
    std::string_view line = lf ? in.substr(0, static_cast<std::size_t>(lf - in.data())) : in;
    const std::size_t taken = before + line.size() + (lf ? 1 : 0);
    for (; line.ends_with('\r'); line.remove_suffix(1)) ++crs_pending_;
    put(line, sink);
    stray_crs(sink, kMostCrs);
    if (lf)
      end_line(sink, crs_pending_ > 0);
    else
      at_start_ = false;
    return taken;
  }
  /// Passes on plain lines at the beginning of `in`, if the sink takes them in one piece. Returns their size.
  template <class Sink>
  std::size_t take_plain([[maybe_unused]] std::string_view in, [[maybe_unused]] Sink& sink) {
    if constexpr (TakesLines<Sink>) {
      if (!at_start_ || crs_pending_ > 0 || !sink.takes_lines()) return 0;
      const PlainLines run = plain_lines(in);
      if (run.size == 0) return 0;
      sink.lines(in.substr(0, run.size), run);
      last_crlf_ = true;
      return run.size;
    } else {
      return 0;
    }
  }
  template <class Sink>
  void put(std::string_view text, Sink& sink) {
    while (const auto* cr =
               static_cast<const char*>(text.empty() ? nullptr : std::memchr(text.data(), '\r', text.size()))) {
      const auto n = static_cast<std::size_t>(cr - text.data());
      if (n > 0) sink.text(text.substr(0, n));
      stray_cr(sink);
      text.remove_prefix(n + 1);
    }
    if (!text.empty()) sink.text(text);
  }
  template <class Sink>
  void stray_cr(Sink& sink) {
    ++bare_cr_;
    sink.text(policy_.replace_bare_cr ? " " : "\r");
  }
  /// Those beyond `most`.
  template <class Sink>
  void stray_crs(Sink& sink, std::size_t most = 0) {
    for (; crs_pending_ > most; --crs_pending_) stray_cr(sink);
  }
  /// crlf: the last of the pending CRs belongs to it.
  template <class Sink>
  void end_line(Sink& sink, bool crlf) {
    if (!crlf) ++bare_lf_;
    for (; crs_pending_ > 1; --crs_pending_) {
      if (policy_.replace_bare_cr)
        ++bare_cr_;
      else
        stray_cr(sink);
    }
    crs_pending_ = 0;
    last_crlf_ = crlf;
    at_start_ = true;
    sink.line_end();
  }

  WirePolicy policy_;
  bool at_start_ = true;
  bool last_crlf_ = true;        // the previous line ended in CRLF (DATA's own line end counts)
  std::size_t crs_pending_ = 0;  // at the end of what has come; an LF may follow
  std::uint64_t bare_lf_ = 0, bare_cr_ = 0;
};

class DataScanner : public LineCutter {
 public:
  explicit DataScanner(WirePolicy policy = {}) : LineCutter(policy) {}

  /// Takes bytes up to the end of data at most; returns how many. Takes nothing once done().
  template <class Sink>
  std::size_t feed(std::string_view in, Sink& sink) {
    std::size_t at = 0;
    while (at < in.size() && state_ != State::done) {
      const char c = in[at];
      if (state_ == State::dot) {
        if (c == '\r') {
          state_ = State::dot_cr;
          ++at;
        } else if (c == '\n' && policy_.any_end_of_data) {
          ++at;
          ++bare_lf_;
          state_ = State::done;
        } else if (c == '\n') {  // ".LF" does not end the data: a line of one dot
          ++at;
          sink.text(".");
          end_line(sink, false);
          state_ = State::text;
        } else {  // unstuff
          state_ = State::text;
          at_start_ = false;
        }
      } else if (state_ == State::dot_cr) {
        state_ = State::text;
        if (c == '\n') {
          ++at;
          if (last_crlf_ || policy_.any_end_of_data) {
            state_ = State::done;
          } else {  // "LF.CRLF" does not end the data either
            sink.text(".");
            end_line(sink, true);
          }
        } else {  // the CR is content of a line that began with a dot
          at_start_ = false;
          crs_pending_ = 1;
        }
      } else if (at_start_ && c == '.') {
        state_ = State::dot;
        ++at;
      } else if (const std::size_t plain = take_plain(in.substr(at), sink); plain > 0) {
        at += plain;
      } else {
        at += cut(in.substr(at), sink);
      }
    }
    return at;
  }
  bool done() const { return state_ == State::done; }

 private:
  enum class State : std::uint8_t { text, dot, dot_cr, done };
  State state_ = State::text;
};

class BdatScanner : public LineCutter {
 public:
  explicit BdatScanner(WirePolicy policy = {}) : LineCutter(policy) {}
  template <class Sink>
  void feed(std::string_view in, Sink& sink) {
    while (!in.empty()) {
      const std::size_t plain = take_plain(in, sink);
      in.remove_prefix(plain > 0 ? plain : cut(in, sink));
    }
  }
  /// Call this after the last chunk: completes a last line without an end.
  template <class Sink>
  void finish(Sink& sink) {
    stray_crs(sink);
    if (!at_start_) {
      sink.line_end();
      at_start_ = true;
    }
  }
};

/// Collects the BodyFacts of passing stored content, line by line.
class FactsCollector {
 public:
  void text(std::string_view part);
  void line_end();
  bool takes_lines() const { return true; }
  void lines(std::string_view text, const PlainLines& run);
  /// The header ends here: the caller knows where. Call this at the start of a line.
  void end_of_header() {
    header_ended_ = true;
    facts_.header_size = facts_.size;
  }
  /// The same when the next line is the empty line, which still belongs to the header.
  void end_of_header_after_separator() {
    end_of_header();
    facts_.header_size += 2;
  }
  std::uint64_t size() const { return facts_.size; }
  /// So far, the line that is not ended included.
  std::uint64_t longest_line() const { return facts_.longest_line > line_ ? facts_.longest_line : line_; }
  bool eight_bit_body() const { return facts_.eight_bit_body; }
  BodyFacts finish() &&;

 private:
  BodyFacts facts_;
  std::uint64_t line_ = 0;
  bool header_ended_ = false;
};

}  // namespace pen::mail
