#pragma once
/// The part of a ContentBuilder that runs checks and address mapping. Internal to lib/receive/intake.
#include "lib/receive/intake/checked_content.h"
#include "lib/receive/intake/content.h"

namespace pen::intake {

class ContentBuilder::Inspection final : public CheckedContent {
 public:
  explicit Inspection(ContentBuilder& to);

  /// Our own field at the top: checked, not mapped.
  void own_field(std::string_view field);
  /// What checks of characters leave of a piece of a line. Only with checks. Valid until the next call.
  std::string_view characters(std::string_view part);
  /// Call this after each piece of a line: looks whether the walker has found a reason to refuse.
  void look();
  /// Call this after the last byte.
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
