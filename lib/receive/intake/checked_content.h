#pragma once
/// Passes a message's lines through checks: Checks gets what a MimeWalker finds, and the output is what remains.
///
/// Use:     derive; feed walker() with lines; the rest comes as out() and out_end(). message_field() and the other
///          hooks are for further work on the header: see ContentBuilder (receiving) and smtp's RewrittenContent
///          (sending).
/// Rules:   a dropped field or line goes with its line end. Of a field that is too long to be checked whole, the rest
///          shares the fate of the beginning.
#include "lib/receive/intake/checks.h"

namespace pen::intake {

class CheckedContent : public mail::MimeWalker::Sink {
 public:
  using Header = mail::MimeWalker::Header;
  /// checks: may be nullptr; must outlive this object.
  CheckedContent(Checks* checks, const mail::MimeWalker::Options& walk) : checks_(checks), walker_(*this, walk) {}
  mail::MimeWalker& walker() { return walker_; }

 protected:
  virtual void out(std::string_view part) = 0;
  virtual void out_end() = 0;
  /// Called when checks may have reached a decision.
  virtual void checked() {}
  /// A field of the message's own header after checks. original: as received; text: as it is now; kept: checks keep
  /// it; whole: text is the whole field and may be changed. Returns false to leave the field out.
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
  /// Puts out what a check wants before the present line.
  void put_before();

  Checks* checks_;
  mail::MimeWalker walker_;
  std::string before_, text_;
  bool dropping_ = false;      // nothing of the present field is kept
  bool line_kept_ = false;     // something of the present body line was kept
  bool line_dropped_ = false;  // something of it was dropped
};

}  // namespace pen::intake
