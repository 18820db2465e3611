#pragma once
/// A message's lines on their way through checks: what a MimeWalker finds goes to Checks, and what is left of it out.
///
/// Use:     derive; feed walker() with lines; the rest comes as out() and out_end(). message_field() and the other
///          hooks are for what else is done with the header: ContentBuilder (receiving), smtp's RewrittenContent
///          (sending).
/// Rules:   a field or line that is dropped goes with its line end; of a field that is longer than is looked at the
///          rest shares the fate of its beginning.
#include "lib/intake/checks.h"

namespace pen::intake {

class CheckedContent : public mail::MimeWalker::Sink {
 public:
  using Header = mail::MimeWalker::Header;
  /// checks: nullptr: none; else it outlives this.
  CheckedContent(Checks* checks, const mail::MimeWalker::Options& walk) : checks_(checks), walker_(*this, walk) {}
  mail::MimeWalker& walker() { return walker_; }

 protected:
  virtual void out(std::string_view part) = 0;
  virtual void out_end() = 0;
  /// Checks may have come to something.
  virtual void checked() {}
  /// A field of the message's own header after checks. original: as it came; text: as it is now; kept: checks leave it;
  /// whole: text is all of it, and may be changed. False: it is left out.
  virtual bool message_field(std::string_view /*original*/, std::string& /*text*/, bool kept, bool /*whole*/) {
    return kept;
  }
  virtual void header_ended(Header /*header*/, bool /*separator*/) {}
  Checks* checks() const { return checks_; }

 private:
  void field(Header header, std::string_view text, bool ends) final;
  void more_field(Header header, std::string_view text, bool ends) final;
  void end_of_header(Header header, bool separator) final;
  void body(std::string_view text, bool ends) final;
  void put(std::string_view lines, bool ends);
  /// What is to stand before the present line.
  void put_before();

  Checks* checks_;
  mail::MimeWalker walker_;
  std::string before_, text_;
  bool dropping_ = false;      // of the present field nothing is kept
  bool line_kept_ = false;     // of the present line of a body something is
  bool line_dropped_ = false;  // or something is not
};

}  // namespace pen::intake
