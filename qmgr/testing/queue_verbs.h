#pragma once
/// The verbs of scenario files in tests/scenario/queue: their world is a whole queue manager: Manager, Scheduler and
/// QueueLog as they are, over memory storage, in virtual time. The programs around it are played (manager_fixture.h),
/// and the power may fail at any statement.
///
/// Use:     perform(world, statement); queue_language_page() is tests/scenario/queue/README.md.
/// To add:  a row in queue_verbs.cc, then the target scenario_page_update.
#include "qmgr/manager_fixture.h"
#include "qmgr/testing/scenario.h"

namespace pen::qmgr::scenario {

struct QueueWorld : Fixture {};

void perform(QueueWorld& world, const Statement& statement);
std::string queue_language_page();

}  // namespace pen::qmgr::scenario
