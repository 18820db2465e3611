#include "lib/net/redis/reply.h"

#include <hiredis/hiredis.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "lib/base/check.h"
#include "lib/base/text.h"

namespace pen::redis {

std::string_view describe(RedisError e) {
  switch (e) {
    case RedisError::malformed:
      return "not the reply of a redis server";
    case RedisError::too_large:
      return "reply too large";
    case RedisError::unasked:
      return "unexpected reply";
    case RedisError::refused:
      return "the server refused";
    case RedisError::no_answer:
      return "no answer in time";
    case RedisError::closed:
      return "connection closed";
    case RedisError::bad_server:
      return "not the address of a server";
    case RedisError::untrusted:
      return "the server's certificate is not accepted";
  }
  return "unknown";
}

std::optional<std::string> script_name(const Reply& reply) {
  const bool hex = reply.kind == Reply::Kind::text && reply.text.size() == 40 &&
                   std::all_of(reply.text.begin(), reply.text.end(),
                               [](char c) { return ascii_digit(c) || (c >= 'a' && c <= 'f'); });
  if (!hex) return std::nullopt;
  return reply.text;
}

std::string format_command(const std::vector<std::string>& words) {
  std::vector<const char*> at;
  std::vector<std::size_t> sizes;
  for (const std::string& w : words) {
    at.push_back(w.data());
    sizes.push_back(w.size());
  }
  char* text = nullptr;
  const auto size = ::redisFormatCommandArgv(&text, static_cast<int>(words.size()), at.data(), sizes.data());
  PEN_CHECK(size >= 0, "out of memory for a redis command");
  std::string out(text, static_cast<std::size_t>(size));
  ::redisFreeCommand(text);
  return out;
}

namespace {

/// The reader's privdata: how much the current reply may still hold.
struct Budget {
  std::size_t items = kMaxItems;
  bool exceeded = false;
};

/// Where the value of this task is stored: the root is made here, the others are in their parents.
Reply* place(const redisReadTask* task) {
  if (task->parent == nullptr) return new Reply;
  auto& items = static_cast<Reply*>(task->parent->obj)->items;
  return &items[static_cast<std::size_t>(task->idx)];
}

void* create_string(const redisReadTask* task, char* text, std::size_t size) {
  if (task->type != REDIS_REPLY_STRING && task->type != REDIS_REPLY_STATUS && task->type != REDIS_REPLY_ERROR)
    return nullptr;
  Reply* r = place(task);
  r->kind = task->type == REDIS_REPLY_ERROR    ? Reply::Kind::error
            : task->type == REDIS_REPLY_STATUS ? Reply::Kind::status
                                               : Reply::Kind::text;
  r->text.assign(text, size);
  return r;
}
template <class Count>
void* create_array(const redisReadTask* task, Count elements) {
  if (task->type != REDIS_REPLY_ARRAY) return nullptr;
  auto* budget = static_cast<Budget*>(task->privdata);
  if (std::cmp_less(elements, 0) || std::cmp_greater(elements, budget->items)) {
    budget->exceeded = true;  // before memory for them is allocated
    return nullptr;
  }
  budget->items -= static_cast<std::size_t>(elements);
  Reply* r = place(task);
  r->kind = Reply::Kind::array;
  r->items.resize(static_cast<std::size_t>(elements));
  return r;
}
void* create_integer(const redisReadTask* task, long long value) {
  Reply* r = place(task);
  r->kind = Reply::Kind::integer;
  r->integer = value;
  return r;
}
void* create_nil(const redisReadTask* task) { return place(task); }
void free_object(void* root) { delete static_cast<Reply*>(root); }

#if HIREDIS_MAJOR >= 1
// Its reader knows the types of RESP3 too, which no server has been asked for: nullptr makes a reply malformed.
void* refuse_double(const redisReadTask*, double, char*, std::size_t) { return nullptr; }
void* refuse_bool(const redisReadTask*, int) { return nullptr; }
redisReplyObjectFunctions functions{
    create_string, create_array<std::size_t>, create_integer, refuse_double, create_nil, refuse_bool, free_object};
#else
redisReplyObjectFunctions functions{create_string, create_array<int>, create_integer, create_nil, free_object};
#endif

}  // namespace

struct ReplyReader::Impl {
  redisReader* reader = nullptr;
  Budget budget;
};

ReplyReader::ReplyReader() : impl_(std::make_unique<Impl>()) {
  impl_->reader = ::redisReaderCreateWithFunctions(&functions);
  PEN_CHECK(impl_->reader != nullptr, "out of memory for a redis reader");
  impl_->reader->privdata = &impl_->budget;
}

ReplyReader::~ReplyReader() { ::redisReaderFree(impl_->reader); }

void ReplyReader::feed(std::string_view bytes) { (void)::redisReaderFeed(impl_->reader, bytes.data(), bytes.size()); }

Result<std::optional<Reply>> ReplyReader::next() {
  redisReader& r = *impl_->reader;
  void* root = nullptr;
  const int rc = ::redisReaderGetReply(&r, &root);
  if (rc != REDIS_OK || r.err != 0) {
    const std::string said(r.errstr, ::strnlen(r.errstr, sizeof r.errstr));
    return fail(impl_->budget.exceeded ? RedisError::too_large : RedisError::malformed, printable(said, 100));
  }
  if (root == nullptr) {
    if (r.len - r.pos > kMaxReply) return fail(RedisError::too_large);
    return std::optional<Reply>();
  }
  const std::unique_ptr<Reply> owned(static_cast<Reply*>(root));
  impl_->budget = {};
  return std::optional<Reply>(std::move(*owned));
}

}  // namespace pen::redis
