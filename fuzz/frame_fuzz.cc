// Frames of every conversation from any bytes: no crash, no memory beyond the bound, and decoded frames can be encoded
// again.
#include <cstdlib>

#include "lib/suite/ipc/bounce.h"
#include "lib/suite/ipc/delivery.h"
#include "lib/suite/ipc/enqueue.h"
#include "lib/suite/ipc/frame.h"
#include "lib/suite/ipc/keys.h"
#include "lib/suite/ipc/queue.h"
#include "lib/suite/ipc/route.h"
#include "lib/suite/ipc/sessions.h"
#include "lib/suite/ipc/trace.h"
#include "lib/suite/ipc/verify.h"

using namespace pen::ipc;

namespace {

template <class Messages>
void try_messages(const Frame& frame) {
  const auto message = decode_message<Messages>(frame);
  if (!message) return;
  const std::string again = pen::encode(*message);
  const auto second = pen::decode<Messages>(again);
  if (!second || pen::encode(*second) != again) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  std::string_view bytes(reinterpret_cast<const char*>(data), size);
  while (bytes.size() >= kFrameHeader) {
    const auto length = frame_size(bytes, max_frame("route"));
    bytes.remove_prefix(kFrameHeader);
    if (!length || *length > bytes.size()) break;
    const auto frame = parse_frame(bytes.substr(0, *length));
    bytes.remove_prefix(*length);
    if (!frame) continue;
    try_messages<HelloMessage>(*frame);
    try_messages<enqueue::ToQmgr>(*frame);
    try_messages<enqueue::FromQmgr>(*frame);
    try_messages<queue::ToQmgr>(*frame);
    try_messages<queue::FromQmgr>(*frame);
    try_messages<route::ToRewrite>(*frame);
    try_messages<route::FromRewrite>(*frame);
    try_messages<delivery::ToProgram>(*frame);
    try_messages<delivery::FromProgram>(*frame);
    try_messages<bounce::ToBounce>(*frame);
    try_messages<bounce::FromBounce>(*frame);
    try_messages<sessions::ToAnvil>(*frame);
    try_messages<sessions::FromAnvil>(*frame);
    try_messages<trace::ToProgram>(*frame);
    try_messages<trace::FromProgram>(*frame);
    try_messages<verify::ToVerify>(*frame);
    try_messages<verify::FromVerify>(*frame);
    try_messages<verify::ToProbed>(*frame);
    try_messages<keys::ToKeys>(*frame);
    try_messages<keys::FromKeys>(*frame);
  }
  return 0;
}
