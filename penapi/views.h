#pragma once
/// The answers to requests, one function for each row of routes.cc. Each waits at most Server::kPatience for the
/// programs that it asks, and holds a bounded page of what they say.
#include "penapi/routes.h"

namespace pen::api {

// health.cc
async::Task<Response> healthz(Server& server, Call call);
async::Task<Response> readyz(Server& server, Call call);
async::Task<Response> metrics_text(Server& server, Call call);
async::Task<Response> list_services(Server& server, Call call);
async::Task<Response> list_settings(Server& server, Call call);
async::Task<Response> list_sessions(Server& server, Call call);
// page_routes.cc
async::Task<Response> page_html(Server& server, Call call);
async::Task<Response> page_style(Server& server, Call call);
async::Task<Response> page_script(Server& server, Call call);
async::Task<Response> page_icon(Server& server, Call call);
// overview.cc
async::Task<Response> show_overview(Server& server, Call call);
async::Task<Response> show_history(Server& server, Call call);
async::Task<Response> list_events(Server& server, Call call);
// queue_views.cc
async::Task<Response> list_queue(Server& server, Call call);
async::Task<Response> show_message(Server& server, Call call);
// orders.cc
async::Task<Response> delete_message(Server& server, Call call);
async::Task<Response> hold_messages(Server& server, Call call);
async::Task<Response> release_messages(Server& server, Call call);
async::Task<Response> delete_messages(Server& server, Call call);
async::Task<Response> expire_messages(Server& server, Call call);
async::Task<Response> flush_messages(Server& server, Call call);
// destination_views.cc
async::Task<Response> list_destinations(Server& server, Call call);
async::Task<Response> list_troubled(Server& server, Call call);
async::Task<Response> show_destination(Server& server, Call call);
async::Task<Response> explain_recipient(Server& server, Call call);
async::Task<Response> explain_message(Server& server, Call call);
async::Task<Response> suspend_destination(Server& server, Call call);
async::Task<Response> resume_destination(Server& server, Call call);
// suppression_views.cc
async::Task<Response> list_suppressed(Server& server, Call call);
async::Task<Response> show_suppressed(Server& server, Call call);
async::Task<Response> add_suppressed(Server& server, Call call);
async::Task<Response> remove_suppressed(Server& server, Call call);

}  // namespace pen::api
