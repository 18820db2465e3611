#pragma once
/// The header of a message as a list of fields that filters edit.
///
/// Use:     auto [fields, size] = HeaderFields::parse(content);   // content: CRLF lines; the header is `size` bytes
///          fields.hide_first();                                  // our own Received:
///          fields.insert(0, "Authentication-Results", " mx; none");
///          fields.change("Subject", 1, " [spam] hello");
///          stored = fields.text() + "\r\n" + content.substr(size);
/// Form:    a value is what follows the colon, leading blanks and folding (CRLF blank) included, without the last
///          CRLF: text() gives back what was parsed, byte by byte.
/// Indices: as Sendmail and all filters count. insert(): over all fields as delivered, the hidden one included; 0 is
///          above all. change(): over the visible fields of that name, the first is 1, and 0 means 1.
/// Bounds:  none of its own; the caller limits the header. A change costs little, however many fields there are:
///          filters remove forged results one by one, and a stranger decides how many. An insertion looks at all.
/// Source:  Sendmail smfi_addheader(), smfi_insheader(), smfi_chgheader(); Postfix cleanup_milter.c for their corners.
///          Pure.
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace pen::mail {

struct HeaderField {
  std::string name;  // empty: a line before the first field that is no field, as "From " of an mbox
  std::string value;
  bool hidden = false;  // filters neither see nor change it
  bool operator==(const HeaderField&) const = default;
};

class HeaderFields {
 public:
  struct Parsed;
  /// The fields at the start of the content, up to the empty line or to the first line that belongs to no field.
  static Parsed parse(std::string_view content);

  const std::vector<HeaderField>& all() const {
    settle();
    return fields_;
  }
  /// Hides the first field: the Received: of this system, which came into the header last.
  void hide_first();
  /// Hides the last Received: among the fields of the first `front` bytes, where others of this system stand above it.
  void hide_trace(std::size_t front);

  /// At the end of the header.
  void add(std::string_view name, std::string_view value);
  /// Before the field that has the index now; beyond the last one: at the end. A hidden first field that is no longer
  /// the first becomes an ordinary one.
  void insert(std::size_t index, std::string_view name, std::string_view value);
  /// Changes the index-th visible field of the name; an empty value removes the field. Where there is no such field one
  /// is added, unless the value is empty. Names compare without case.
  void change(std::string_view name, std::size_t index, std::string_view value);

  /// All fields, each with its CRLF.
  std::string text() const;

 private:
  using Index = std::map<std::string, std::vector<std::uint32_t>>;  // visible fields by their name in small letters
  Index& by_name();
  /// Takes out what was removed.
  void settle() const;

  mutable std::vector<HeaderField> fields_;
  mutable std::vector<bool> removed_;  // as long as fields_, or empty: none is
  mutable std::optional<Index> index_;
};

struct HeaderFields::Parsed {
  HeaderFields fields;
  std::size_t size = 0;    // bytes of the fields and of the empty line behind them
  bool separator = false;  // there is an empty line
};

/// A value from a filter as it may stand in a header: line ends become CRLF, lines that do not begin with a blank get
/// one, empty lines and NUL go: no value ends the header or begins another field.
std::string header_value(std::string_view value);
/// Whether a name from a filter can be a field's: not empty, printable ASCII without blank and colon.
bool is_field_name(std::string_view name);

}  // namespace pen::mail
