// Requests to the process that is root, from any bytes: no crash; what the policy does not refuse is no account that it
// must not be, and no connection but where commands serve them; of jobs no other command or place than the service's
// passes; what is reported of a command's end is possible; and what is asked as a table is one path.
#include <cstdlib>

#include "lib/send/mailbox/policy.h"
#include "lib/suite/service/table_request.h"

using namespace pen;
using namespace pen::mailbox;

namespace {

Policy policy_of(unsigned char kind) {
  Policy out;
  out.service = kind % 6 == 5 ? Policy::Service::tables : static_cast<Policy::Service>(kind % 6);
  out.kept_uids = {5000};
  out.kept_gids = {5001};
  out.round = {.base = "/vmail", .lowest = 1000};
  out.account = {.uid = 65534, .gid = 65534, .groups = {65534}};
  out.argv = {"/usr/bin/filter", "-f", "${sender}", "to=$recipient"};
  out.directory = "/";
  if (out.service == Policy::Service::connections || kind >= 128) out.at_once = 10;
  return out;
}

void ask(const Policy& policy, std::string_view bytes) {
  const auto request = parse_request(bytes);
  if (!request) return;
  if (encode_request(*request) != bytes) std::abort();
  if (refusal(policy, *request)) return;
  if (policy.service == Policy::Service::tables) std::abort();
  const bool commands = policy.service == Policy::Service::own || policy.service == Policy::Service::connections;
  if (request->kind == Request::Kind::connection && (policy.at_once == 0 || !commands)) std::abort();
  if (policy.service == Policy::Service::connections && request->kind != Request::Kind::connection) std::abort();
  // The name service is no part of this.
  if (policy.service == Policy::Service::users) {
    if (request->uid == 0 || request->uid == 5000 || request->name.empty()) std::abort();
    return;
  }
  const auto who = account_of(policy, *request);
  if (!who) return;
  if (policy.service == Policy::Service::own) {
    if (*who) std::abort();
    return;
  }
  if (request->kind == Request::Kind::postman) {
    if (policy.service != Policy::Service::mailboxes) std::abort();
    return;
  }
  if ((*who)->uid == 0 || (*who)->gid == 0 || (*who)->uid == 5000 || (*who)->gid == 5001) std::abort();
  if (policy.service == Policy::Service::mailboxes && ((*who)->uid < 1000 || !(*who)->groups.empty())) std::abort();
  const bool one = policy.service == Policy::Service::command || policy.service == Policy::Service::connections;
  if (one && ((*who)->uid != 65534 || !request->name.empty())) std::abort();
}

void work(const Policy& policy, std::string_view bytes) {
  const auto job = decode<Job>(bytes);
  if (!job || objection(policy, job->work)) return;
  if (policy.service == Policy::Service::connections || policy.service == Policy::Service::tables) std::abort();
  if (policy.service == Policy::Service::command) {
    const auto& argv = job->work.command.value().argv;
    if (argv.size() < 4 || argv[0] != "/usr/bin/filter" || argv[1] != "-f" || argv[2].starts_with('-')) std::abort();
  }
  if (policy.service == Policy::Service::mailboxes && (job->work.command || job->work.target.base != "/vmail"))
    std::abort();
}

void hear(std::string_view bytes) {
  const auto end = parse_command_end(bytes);
  if (!end) return;
  if (encode_command_end(*end) != bytes) std::abort();
  if (end->code < 0 || end->code > kLargestErrno || end->pid < 0) std::abort();
  if (end->kind == CommandEnd::Kind::exited && end->code > 255) std::abort();
}

void lend(std::string_view bytes) {
  if (const auto path = service::parse_table_request(bytes)) {
    if (parse_request(bytes) || service::encode_table_request(*path) != bytes) std::abort();
    if (!path->starts_with('/') || path->contains('\0')) std::abort();
  }
  if (const auto error = service::parse_table_answer(bytes))
    if (service::encode_table_answer(*error) != bytes) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  if (size < 2) return 0;
  const Policy policy = policy_of(data[0]);
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 2, size - 2);
  if (data[1] % 3 == 0)
    ask(policy, bytes);
  else if (data[1] % 3 == 1)
    work(policy, bytes);
  else
    hear(bytes);
  lend(bytes);
  (void)decode<Policy>(bytes);
  return 0;
}
