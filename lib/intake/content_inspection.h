#pragma once
/// What a ContentBuilder does with content that checks or address mapping want to see. Internal to lib/intake.
#include "lib/intake/checked_content.h"
#include "lib/intake/content.h"

namespace pen::intake {

class ContentBuilder::Inspection final : public CheckedContent {
 public:
  explicit Inspection(ContentBuilder& to);

  /// Our own field on top: checked, not mapped.
  void own_field(std::string_view field);
  /// What is left of a piece of a line, before it is looked at. Only with checks. Valid until the next call.
  std::string_view characters(std::string_view part);
  /// After each piece of a line: has the walker found a reason to refuse?
  void look();
  /// After the last byte.
  void finish();

 private:
  void out(std::string_view part) override { to_.keep(part); }
  void out_end() override { to_.keep_end(); }
  void checked() override;
  bool message_field(std::string_view original, std::string& text, bool kept, bool whole) override;
  void header_ended(Header header, bool separator) override;
  void scan(std::string_view field);
  void map_addresses(std::string& text);

  ContentBuilder& to_;
  std::string spare_;
};

}  // namespace pen::intake
