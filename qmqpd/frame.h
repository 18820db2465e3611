#pragma once
/// Takes a QMQP request apart: the client's one message with its sender and recipients.
///
/// Form:    netstring(netstring(content) netstring(sender) netstring(recipient) …); a netstring is its length in
///          decimal digits, a colon, the text, a comma. http://cr.yp.to/proto/qmqp.html
/// Use:     Frame frame(limits);
///          for (std::string_view rest = bytes; …;) {
///            const Frame::Step step = frame.next(rest);   // as many bytes as one step takes
///            rest.remove_prefix(step.taken);  switch (step.kind) …
///          }
/// Rules:   those of Postfix's server. The length of the whole says nothing that the parts do not say, so it has to be
///          a number and no more; the comma behind the last recipient ends the request, and what follows is nobody's. A
///          length without a digit is 0.
/// Split:   however the input is cut, the steps are the same, apart from how the content is cut.
/// Bounds:  an address is kept, content is passed on.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace pen::qmqpd {

class Frame {
 public:
  struct Limits {
    std::uint64_t content = 0;   // bytes; 0: none
    std::size_t address = 2048;  // bytes of the sender or of a recipient
  };
  explicit Frame(Limits limits) : limits_(limits) {}

  enum class Kind : std::uint8_t {
    more,       // all bytes were taken, and the request goes on
    content,    // text is a part of the content
    sender,     // text is the sender; the content is complete
    recipient,  // text is a recipient
    end,        // the request is complete
    malformed,  // it is no request. This and the next are final
    too_long,   // a part is longer than its limit
  };
  struct Step {
    Kind kind = Kind::more;
    std::string_view text = {};  // in the input or in the frame: valid until the next call
    std::size_t taken = 0;       // bytes of the input
  };
  /// After an end or a fault it takes nothing and says the same again.
  Step next(std::string_view in);

  /// What is expected next, as Postfix says it in its log and to clients: "receiving sender address".
  std::string_view doing() const;
  /// The length of the content, as soon as a part of it has come.
  std::uint64_t content_size() const { return content_size_; }

 private:
  enum class Place : std::uint8_t { header, content, sender, recipient };
  enum class Part : std::uint8_t { length, text, comma };
  /// Takes a digit or the colon. more: no fault.
  Kind length(char c);
  Step finish(Kind kind, std::size_t taken) { return {final_ = kind, {}, taken}; }

  Limits limits_;
  Place place_ = Place::header;
  Part part_ = Part::length;
  bool digits_ = false;       // a digit of the present length has come
  std::uint64_t length_ = 0;  // of the present part; in its text: what is still to come
  std::uint64_t content_size_ = 0;
  std::string address_;
  Kind final_ = Kind::more;  // more: the request goes on
};

}  // namespace pen::qmqpd
