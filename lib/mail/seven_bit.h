#pragma once
/// Turns content with 8-bit bytes into 7-bit for a host without 8BITMIME: quoted-printable or base64, part by part.
///
/// Use:     SevenBitForm form(facts.eight_bit_body);
///          out.clear(); form.feed(chunk, out); send out; …     // in order, cut anywhere
///          form.finish(out);                                   // appends the rest
/// Rules:   only leaf parts are encoded, because a multipart and a message/rfc822 may not be (RFC 2045 section 6.4).
///          Text and message types become quoted-printable, all others base64, so that a reader decodes byte for byte
///          what was sent. Encoded are parts labelled 8bit or binary, and a message of one part without a label whose
///          body has 8-bit bytes. Parts labelled 7bit or encoded already pass unchanged; but a whole message labelled
///          7bit whose body has 8-bit bytes counts as labelled 8bit. Labels of enclosing parts become 7bit.
///          LabelledOnly: only parts labelled 8bit or binary are encoded. A part without a label is 7bit by definition,
///          and passes even if it is not.
///          Below a multipart/signed, parts without a label pass too: they are 7bit (RFC 2045 section 6.1), as signed
///          parts must be (RFC 1847 section 2.1), and a signature does not survive another encoding. A part there that
///          says 8bit is encoded all the same, and the signature breaks.
///          A mailbox's "From " line in a header passes like a field. 8-bit bytes in header fields pass unchanged. So
///          do those outside all parts: a reader shows that text when a delimiter is missing or wrong, and it cannot
///          be labelled.
/// Labels:  a message without Content-Type is called text/plain in charset unknown-8bit (RFC 1428 section 3).
/// Bounds:  a header field, or a line that may be a delimiter, is held whole, up to kMaxHeld; kMaxDepth nested
///          multiparts with boundaries of up to kMaxBoundary. Content beyond these bounds passes unchanged. Where a
///          header has several boundaries, a reader may follow any of them, so all count.
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
  /// For content whose facts are not known.
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
    std::size_t depth = 0;  // of nesting; equal for the boundaries of one header
  };

  void line(std::string_view text, bool complete, std::string& out);
  bool delimiter(std::string_view text, std::string& out);
  void header_line(std::string_view text, bool complete, std::string& out);
  /// default_type: the type of an entity without Content-Type.
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
  std::string held_;                   // a line that is not decided yet
  bool line_open_ = false;             // the line's start was decided; the rest follows
  std::vector<Multipart> multiparts_;  // innermost last

  // Of the header being read:
  bool top_ = true;
  std::string field_;       // the field being gathered, with its line ends
  bool field_cut_ = false;  // longer than the bound: passed on
  std::string type_;        // value of Content-Type
  std::string_view default_type_ = "text/plain";
  bool has_version_ = false;
  Label label_ = Label::none;

  // Of the part being encoded:
  std::size_t column_ = 0;
  char blank_ = '\0';        // a blank that may be the last of its line
  bool cr_ = false;          // a CR that may begin the line's end
  std::string eol_;          // base64: the line end before a possible delimiter
  std::uint32_t group_ = 0;  // base64: bytes not yet written
  unsigned in_group_ = 0;
};

}  // namespace pen::mail
