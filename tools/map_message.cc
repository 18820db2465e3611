#include "tools/map_message.h"

#include "lib/mail/mime_walker.h"

namespace pen::tools {
namespace {

class Keys final : public mail::MimeWalker::Sink {
 public:
  using Header = mail::MimeWalker::Header;
  Keys(const MessageKeys& wanted, const std::function<bool(const std::string&)>& see) : wanted_(wanted), see_(see) {}
  /// True: no further key is wanted.
  bool done() const { return done_; }

 private:
  void field(Header, std::string_view text, bool) override {
    if (wanted_.header) give(text);
  }
  void more_field(Header, std::string_view, bool) override {}
  void end_of_header(Header, bool) override {
    if (!wanted_.body && !wanted_.mime) done_ = true;
  }
  void body(std::string_view text, bool) override {
    if (wanted_.body) give(text);
  }
  void give(std::string_view key) { done_ = done_ || !see_(std::string(key)); }

  const MessageKeys& wanted_;
  const std::function<bool(const std::string&)>& see_;
  bool done_ = false;
};

}  // namespace

void each_key(std::istream& in, const MessageKeys& wanted, const std::function<bool(const std::string& key)>& see) {
  Keys keys(wanted, see);
  mail::MimeWalker walker(keys, {.mime = wanted.mime, .lines = true});
  std::string line;
  while (!keys.done() && std::getline(in, line)) {
    const bool ends = !in.eof();
    if (ends && line.ends_with('\r')) line.pop_back();
    walker.text(line);
    if (ends) walker.line_end();
  }
  if (!keys.done()) walker.finish();
}

}  // namespace pen::tools
