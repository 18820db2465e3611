#include "qmqpd/frame.h"

#include <algorithm>
#include <limits>

#include "lib/base/text.h"

namespace pen::qmqpd {

std::string_view Frame::doing() const {
  switch (place_) {
    case Place::header:
      return "receiving QMQP packet header";
    case Place::content:
      return "receiving message content";
    case Place::sender:
      return "receiving sender address";
    case Place::recipient:
      break;
  }
  return "receiving recipient address";
}

Frame::Kind Frame::length(char c) {
  constexpr std::uint64_t kMost = std::numeric_limits<std::int64_t>::max();
  if (c != ':') {
    if (!ascii_digit(c)) return Kind::malformed;
    const auto digit = static_cast<std::uint64_t>(c - '0');
    if (length_ > (kMost - digit) / 10) return Kind::too_long;
    length_ = length_ * 10 + digit;
    digits_ = true;
    return Kind::more;
  }
  digits_ = false;
  if (place_ == Place::header) {
    place_ = Place::content;
    length_ = 0;
    return Kind::more;
  }
  const std::uint64_t limit = place_ == Place::content ? limits_.content : limits_.address;
  if (limit != 0 && length_ > limit) return Kind::too_long;
  if (place_ == Place::content) content_size_ = length_;
  address_.clear();
  part_ = length_ > 0 ? Part::text : Part::comma;
  return Kind::more;
}

Frame::Step Frame::next(std::string_view in) {
  if (final_ != Kind::more) return {final_, {}, 0};
  std::size_t at = 0;
  while (at < in.size()) {
    if (part_ == Part::text) {
      const auto size = static_cast<std::size_t>(std::min<std::uint64_t>(length_, in.size() - at));
      const std::string_view text = in.substr(at, size);
      at += size;
      length_ -= size;
      if (length_ == 0) part_ = Part::comma;
      if (place_ == Place::content) return {Kind::content, text, at};
      address_ += text;
      continue;
    }
    const char c = in[at++];
    if (part_ == Part::length) {
      if (c == ',' && place_ == Place::recipient && !digits_) return finish(Kind::end, at);
      if (const Kind fault = length(c); fault != Kind::more) return finish(fault, at);
      continue;
    }
    if (c != ',') return finish(Kind::malformed, at);
    part_ = Part::length;
    length_ = 0;
    if (place_ == Place::recipient) return {Kind::recipient, address_, at};
    const bool sender = place_ == Place::sender;
    place_ = sender ? Place::recipient : Place::sender;
    if (sender) return {Kind::sender, address_, at};
  }
  return {Kind::more, {}, at};
}

}  // namespace pen::qmqpd
