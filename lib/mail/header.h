#pragma once
/// Scans the header of a passing message: where it ends, and the few fields that a mail system looks at.
///
/// Use:     HeaderScanner scan;
///          auto kind = HeaderScanner::classify(start, whole, first_line);  // undecided: gather more of the line
///          scan.line(text, kind);             // each line before the one that is separator or body
///          scan.summary()                     // intake::ContentBuilder does this with incoming content
/// Source:  RFC 5322 section 2.2, RFC 5321 section 6.3 (hop count).
/// Bounds:  keeps at most kMaxKept bytes of the values it needs; fields of any length pass.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace pen::mail {

/// The length of a field name at the start of a line, 0 when the line starts no field: printable characters but colon,
/// then optional blanks, then a colon (RFC 5322 section 3.6.8 and the obsolete blanks of 4.5).
std::size_t field_name_length(std::string_view line);

/// Whether a line is the separator of a mailbox: "From ", perhaps behind ">". "From :" is a field (RFC 5322 section
/// 4.5). nullopt: more of the line decides; whole: no more will come.
std::optional<bool> mailbox_line(std::string_view start, bool whole);

/// The kinds of fields that a mail system distinguishes, by name in any case.
enum class FieldUse : std::uint8_t { other, sender_address, recipient_address, mime };
/// Source: Postfix header_checks(5) (MIME related headers), canonical(5) (which fields hold addresses of which kind).
FieldUse field_use(std::string_view name);

/// Facts about the header so far.
struct HeaderSummary {
  unsigned received = 0;  // Received: fields
  unsigned delivered_to = 0;
  bool date = false, message_id = false, from = false;
  bool recipients = false;  // To:, Cc:, Resent-To: or Resent-Cc: is there
  bool resent = false;      // any field of resending (RFC 5322 section 3.6.6)
  bool resent_date = false, resent_message_id = false, resent_from = false;
  std::string message_id_value;  // first Message-ID, unfolded and trimmed, at most kMaxKept bytes
  std::string from_value;        // first From, the same
  static constexpr std::size_t kMaxKept = 250;
  /// The number of TLS-Required fields, and whether the first says "No" (RFC 8689 section 3: at most one, with no
  /// other value).
  unsigned tls_required_fields = 0;
  bool tls_required_no = false;
  bool require_tls_esmtp = false;  // "Require-TLS-ESMTP: yes"
};

/// Takes lines in stored form, without their CRLF.
class HeaderScanner {
 public:
  enum class Line : std::uint8_t {
    field,         // starts a field
    continuation,  // belongs to the previous field
    separator,     // the empty line that ends the header
    body,          // neither: the header ended before this line, without an empty line
    undecided,     // needs more of the line
  };
  /// Classifies the line that begins with `start`; `whole`: no more of it will come. At most kDecide bytes are needed:
  /// a longer name is not a field name.
  static Line classify(std::string_view start, bool whole, bool first_line);
  static constexpr std::size_t kDecide = 1000;

  /// One line of the header (never separator or body), possibly only its first bytes when it is long.
  void line(std::string_view text, Line kind);
  const HeaderSummary& summary() const { return summary_; }

 private:
  void resent(std::string_view name);  // name: the part behind "Resent-"
  HeaderSummary summary_;
  enum class Keeps : std::uint8_t { nothing, message_id, from } keeps_ = Keeps::nothing;  // of the present field
};

}  // namespace pen::mail
