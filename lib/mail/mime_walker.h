#pragma once
/// Takes a passing message apart: whole header fields (of the message, of its parts, of messages inside it), and lines
/// of bodies. Nothing is lost: all input comes out in order, as one or the other.
///
/// Use:     MimeWalker walker(sink, options);
///          scanner.feed(bytes, walker);      // it is a sink of mail::DataScanner and BdatScanner: lines without CRLF
///          walker.finish();
///          once plain(), the rest is body that the sink does not want: the caller may stop feeding
/// Fields:  are unfolded but for their line ends: "\n" between lines. The rest of a field beyond max_field comes as
///          more_field(), and so do lines of a header that belong to no field (a stray "From ").
/// Parts:   a delimiter is recognised by its beginning, because careless programs write more on the line; the
///          delimiter is a line of the body. The body of a message/rfc822 or message/global part begins with a header.
///          Where a header has several types or boundaries, a reader may follow any of them, so all count. Parts below
///          max_depth boundaries are not entered; too_deep() reports that.
/// Bounds:  one field or line of at most max_field bytes, max_depth boundaries of max_boundary bytes.
/// Source:  RFC 5322 section 2.2, RFC 2046 section 5.1; Postfix header_size_limit, mime_nesting_limit,
///          mime_boundary_length_limit, line_length_limit, disable_mime_input_processing.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace pen::mail {

class MimeWalker {
 public:
  /// What the header belongs to: the message, a part of a multipart, an enclosed message.
  enum class Header : std::uint8_t { message, part, inner };

  /// max_depth by mime_nesting_limit: Postfix looks into two levels more than that.
  static constexpr std::size_t depth_of(std::int64_t limit) { return static_cast<std::size_t>(limit) + 2; }

  struct Options {
    bool mime = true;    // look for parts; else everything after the first header is body
    bool lines = false;  // the sink wants bodies in whole lines
    std::size_t max_field = 102400;
    std::size_t max_line = 2048;  // longer lines of a body come in pieces of this size
    std::size_t max_boundary = 2048;
    std::size_t max_depth = 100;
  };

  class Sink {
   public:
    virtual ~Sink() = default;
    /// Without its last line end. ends: false if its line continues in more_field().
    virtual void field(Header header, std::string_view text, bool ends) = 0;
    /// A line, or a piece of one, that belongs to the previous field and is not inspected. ends: the line ends here.
    virtual void more_field(Header header, std::string_view text, bool ends) = 0;
    /// separator: the empty line that follows belongs to the header; else the body follows directly.
    virtual void end_of_header(Header header, bool separator) = 0;
    /// A line of a body, or a piece of one. ends: the line ends here.
    virtual void body(std::string_view text, bool ends) = 0;
  };

  MimeWalker(Sink& sink, const Options& options);

  void text(std::string_view part);
  void line_end();
  /// Ends an unfinished line and an open header.
  void finish();

  bool in_header() const { return in_header_; }
  /// Whether we are at the start of a line after which only body can come.
  bool plain() const { return !in_header_ && parts_.empty() && !options_.lines && at_start_; }
  /// Bytes since the beginning of the body of this part or message.
  std::uint64_t body_offset() const { return offset_; }
  bool too_deep() const { return too_deep_; }
  /// Bytes of the input that it holds.
  std::size_t held() const;

 private:
  struct Multipart {
    std::string boundary;
    bool digest = false;    // parts without a type are messages
    std::size_t depth = 0;  // of nesting; equal for the boundaries of one header
  };
  void decide(bool whole);
  void header_line(bool whole);
  void body_line(bool whole);
  bool delimiter(bool whole);
  void end_field(bool ends);
  void take_type(std::string_view value);
  void begin_header(Header header);
  void end_header(bool separator);
  void put_body(std::string_view text, bool ends);
  void pass(std::string_view text, bool ends);

  Sink& sink_;
  Options options_;
  bool in_header_ = true;
  Header header_ = Header::message;
  bool first_line_ = true;        // of a header
  std::string line_;              // undecided start of the present line or piece
  bool at_start_ = true;          // line_ is the beginning of its line
  bool passing_ = false;          // the rest of the line passes through
  bool delimiter_ = false;        // the present line is a delimiter, and its parts have headers
  std::string field_;             // empty: none, or too long to be inspected
  bool typed_ = false;            // the header has a Content-Type
  bool message_ = false;          // the header's entity is a message
  bool digest_ = false;           // the entity is a message if it has no type
  std::vector<Multipart> found_;  // boundaries of the header
  std::vector<Multipart> parts_;  // innermost last
  std::uint64_t offset_ = 0;
  bool too_deep_ = false;
};

}  // namespace pen::mail
