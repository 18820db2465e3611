#pragma once
/// Content with 8-bit bytes turned into 7-bit for a host without 8BITMIME: quoted-printable or base64, part by part.
///
/// Use:     SevenBitForm form(facts.eight_bit_body);
///          out.clear(); form.feed(chunk, out); send out; …     // in order, cut anywhere
///          form.finish(out);                                   // what was held back
/// Rules:   Only leaf parts are encoded, because a multipart and a message/rfc822 may not be (RFC 2045 section 6.4):
///          text and message types become quoted-printable, all others base64, so that what a reader decodes is byte
///          for byte what was sent. Encoded are parts labelled 8bit or binary, parts without a label (a message of
///          one part: if the body has 8-bit bytes), and nothing else: parts labelled 7bit or encoded already pass as
///          they are, except that a whole message labelled 7bit whose body has 8-bit bytes counts as labelled 8bit.
///          Labels of enclosing parts become 7bit. With LabelledOnly, parts labelled 8bit or binary are encoded and
///          nothing else: what has no label is 7bit by definition, and where it is not, it passes all the same. Below
///          a multipart/signed parts without a label pass too: without one they are 7bit (RFC 2045 section 6.1), as
///          signed parts have to be (RFC 1847 section 2.1), and a signature does not survive another encoding. Where
///          a part there says 8bit, it is encoded all the same and the signature breaks. A mailbox's "From " line in
///          a header passes like a field. 8-bit bytes in header fields pass unchanged; so do those outside all parts,
///          because a reader shows that text where a delimiter is missing or wrong, and it cannot be labelled.
/// Labels:  a message without Content-Type is called text/plain in charset unknown-8bit (RFC 1428 section 3).
/// Bounds:  a header field or a line that may be a delimiter is held whole, up to kMaxHeld; kMaxDepth nested multiparts
///          with boundaries up to kMaxBoundary. What goes beyond is passed as it is. Where a header has several
///          boundaries, any of them may be the one that a reader goes by: all count.
/// Source:  RFC 6152 section 3, RFC 2045, RFC 2046; Postfix's disable_mime_output_conversion and, for LabelledOnly,
///          force_mime_input_conversion.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace pen::mail {

class SevenBitForm {
 public:
  /// eight_bit: the body of the message has 8-bit bytes (BodyFacts).
  explicit SevenBitForm(bool eight_bit) : eight_bit_(eight_bit) {}
  /// For content of which nothing is known yet.
  struct LabelledOnly {};
  explicit SevenBitForm(LabelledOnly /*mode*/) : eight_bit_(false), labelled_only_(true) {}
  /// Appends to out.
  void feed(std::string_view chunk, std::string& out);
  void finish(std::string& out);

  static constexpr std::size_t kMaxHeld = 16 * 1024;
  static constexpr std::size_t kMaxDepth = 100;
  static constexpr std::size_t kMaxBoundary = 250;

 private:
  enum class In : std::uint8_t { header, as_is, quoted_printable, base64 };
  enum class Label : std::uint8_t { none, seven_bit, eight_bit, encoded };
  struct Multipart {
    std::string boundary;
    bool digest = false;  // parts without a type are messages
    bool is_signed = false;
    std::size_t depth = 0;  // the same for the boundaries of one header
  };

  void line(std::string_view text, bool complete, std::string& out);
  bool delimiter(std::string_view text, std::string& out);
  void header_line(std::string_view text, bool complete, std::string& out);
  /// default_type: of an entity without Content-Type.
  void begin_header(std::string_view default_type);
  void end_field(std::string& out);
  void end_header(std::string& out);
  void end_part(std::string& out);
  void body(std::string_view text, std::string& out);
  void quote(char c, std::string& out);
  void put(char c, bool as_it_is, std::string& out);
  void put_blank(bool as_it_is, std::string& out);
  void encode(std::string_view bytes, std::string& out);
  void flush_base64(std::string& out);

  bool eight_bit_;
  bool labelled_only_ = false;
  In in_ = In::header;
  std::string held_;                   // the line that is not decided
  bool line_open_ = false;             // the line's start was decided; the rest follows
  std::vector<Multipart> multiparts_;  // innermost last

  // of the header being read
  bool top_ = true;
  std::string field_;       // the field being gathered, with its line ends
  bool field_cut_ = false;  // longer than is kept: passed on
  std::string type_;        // value of Content-Type
  std::string_view default_type_ = "text/plain";
  bool has_version_ = false;
  Label label_ = Label::none;

  // of the part being encoded
  std::size_t column_ = 0;
  char blank_ = '\0';        // a blank that may be the last of its line
  bool cr_ = false;          // a CR that may begin the line's end
  std::string eol_;          // base64: the line end before what may be a delimiter
  std::uint32_t group_ = 0;  // base64: bytes not yet written
  unsigned in_group_ = 0;
};

}  // namespace pen::mail
