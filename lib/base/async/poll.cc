#include "lib/base/async/poll.h"

#include <uv.h>

namespace pen::async::detail {

struct Poll::Handle {
  uv_poll_t uv{};
  Poll* owner = nullptr;
};

int Poll::arm(int fd, unsigned events) {
  if (events == armed_) return 0;
  if (!handle_) {
    auto* handle = new Handle;
    handle->owner = this;
    handle->uv.data = handle;
    if (const int rc = uv_poll_init(static_cast<uv_loop_t*>(loop_.native()), &handle->uv, fd); rc != 0) {
      delete handle;
      return -rc;
    }
    handle_ = handle;
    poll_list(loop_).push_back(*this);
  }
  armed_ = events;
  if (events == 0) return -uv_poll_stop(&handle_->uv);
  int uv_events = 0;
  if (events & kRead) uv_events |= UV_READABLE;
  if (events & kWrite) uv_events |= UV_WRITABLE;
  return -uv_poll_start(&handle_->uv, uv_events, [](uv_poll_t* p, int status, int ready) {
    Poll* self = static_cast<Handle*>(p->data)->owner;
    if (!self) return;
    // libuv has stopped watching; the next system call on the descriptor returns the reason.
    if (status < 0) {
      self->armed_ = 0;
      self->client_->on_ready(true, true);
      return;
    }
    self->client_->on_ready((ready & UV_READABLE) != 0, (ready & UV_WRITABLE) != 0);
  });
}

void Poll::detach() {
  unlink();
  armed_ = 0;
  if (!handle_) return;
  handle_->owner = nullptr;
  uv_close(reinterpret_cast<uv_handle_t*>(&handle_->uv), [](uv_handle_t* h) { delete static_cast<Handle*>(h->data); });
  handle_ = nullptr;
}

}  // namespace pen::async::detail
