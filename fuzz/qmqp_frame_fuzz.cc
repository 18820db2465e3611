// QMQP requests of any shape: no crash, nothing beyond the limits, and the same however the input is cut.
#include <cstdlib>
#include <string>

#include "qmqpd/frame.h"

using pen::qmqpd::Frame;

namespace {

constexpr Frame::Limits kLimits{.content = 200, .address = 50};

std::string read(std::string_view in, std::size_t piece) {
  Frame frame(kLimits);
  std::string seen;
  std::size_t content = 0;
  for (;;) {
    const auto step = frame.next(in.substr(0, piece));
    if (step.taken > std::min(piece, in.size())) std::abort();
    in.remove_prefix(step.taken);
    if (step.kind == Frame::Kind::content) {
      content += step.text.size();
    } else if (step.kind != Frame::Kind::more) {
      if (step.text.size() > kLimits.address) std::abort();
      seen += static_cast<char>('0' + static_cast<int>(step.kind));
    }
    seen += step.text;
    if (content > kLimits.content || content > frame.content_size()) std::abort();
    if (step.kind >= Frame::Kind::end || in.empty()) break;
  }
  seen += frame.doing();
  return seen;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  const std::string_view in(reinterpret_cast<const char*>(data), size);
  const std::string whole = read(in, std::max<std::size_t>(size, 1));
  for (const std::size_t piece : {1U, 2U, 7U})
    if (read(in, piece) != whole) std::abort();
  return 0;
}
