#pragma once
/// What a ContentBuilder does with content that checks or address mapping want to see. Internal to lib/intake.
#include "lib/intake/content.h"
#include "lib/mail/mime_walker.h"

namespace pen::intake {

class ContentBuilder::Inspection final : public mail::MimeWalker::Sink {
 public:
  using Header = mail::MimeWalker::Header;
  explicit Inspection(ContentBuilder& to);

  /// Our own field on top: checked, not mapped.
  void own_field(std::string_view field);
  mail::MimeWalker& walker() { return walker_; }
  /// After each piece of a line: has the walker found a reason to refuse?
  void look();
  /// After the last byte.
  void finish();

  void field(Header header, std::string_view text, bool ends) override;
  void more_field(Header header, std::string_view text, bool ends) override;
  void end_of_header(Header header, bool separator) override;
  void body(std::string_view text, bool ends) override;

 private:
  void check_failed();
  void map_addresses(std::string_view name, std::string& text);
  void put(std::string_view lines, bool ends);

  ContentBuilder& to_;
  mail::MimeWalker walker_;
  std::string before_;
  bool dropping_ = false;      // of the present field nothing is kept
  bool line_kept_ = false;     // of the present line of a body something is
  bool line_dropped_ = false;  // or something is not
};

}  // namespace pen::intake
