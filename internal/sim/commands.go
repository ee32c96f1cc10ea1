package sim

// commands is Redis's command table as far as the model goes.
var commands map[string]command

const (
	write  = flagWrite
	grow   = flagWrite | flagDenyOOM
	always = flagLoading | flagStale
)

func init() { // not a composite literal: EVAL runs commands, which would be an initialisation cycle
	commands = map[string]command{
		// connection
		"ping":   {cmdPing, -1, flagSub},
		"echo":   {cmdEcho, 2, always},
		"auth":   {cmdAuth, -2, always | flagNoAuth | flagNoScript},
		"hello":  {cmdHello, -1, always | flagNoAuth | flagNoScript},
		"quit":   {cmdQuit, -1, always | flagNoAuth | flagNoScript | flagSub},
		"select": {cmdSelect, 2, always},
		"client": {cmdClient, -2, always | flagNoScript},
		// server
		"time":     {cmdTime, 1, always},
		"info":     {cmdInfo, -1, always},
		"role":     {cmdRole, 1, always | flagNoScript},
		"config":   {cmdConfig, -2, always | flagNoScript},
		"dbsize":   {cmdDBSize, 1, 0},
		"flushall": {cmdFlushAll, -1, write},
		"flushdb":  {cmdFlushDB, -1, write},
		// keys
		"del":         {cmdDel, -2, write},
		"unlink":      {cmdDel, -2, write},
		"exists":      {cmdExists, -2, 0},
		"type":        {cmdType, 2, 0},
		"ttl":         {ttl(1000, false), 2, 0},
		"pttl":        {ttl(1, false), 2, 0},
		"expiretime":  {ttl(1000, true), 2, 0},
		"pexpiretime": {ttl(1, true), 2, 0},
		"expire":      {expire(1000, false), -3, write},
		"pexpire":     {expire(1, false), -3, write},
		"expireat":    {expire(1000, true), -3, write},
		"pexpireat":   {expire(1, true), -3, write},
		"persist":     {cmdPersist, 2, write},
		"keys":        {cmdKeys, 2, 0},
		"scan":        {cmdScan, -2, 0},
		"rename":      {cmdRename, 3, write},
		// strings
		"set":    {cmdSet, -3, grow},
		"setnx":  {cmdSetNX, 3, grow},
		"get":    {cmdGet, 2, 0},
		"mget":   {cmdMGet, -2, 0},
		"getdel": {cmdGetDel, 2, write},
		"strlen": {cmdStrlen, 2, 0},
		"append": {cmdAppend, 3, grow},
		"incr":   {add(1), 2, grow},
		"decr":   {add(-1), 2, grow},
		"incrby": {add(1), 3, grow},
		"decrby": {add(-1), 3, grow},
		// hashes
		"hset":    {cmdHSet, -4, grow},
		"hmset":   {cmdHSet, -4, grow},
		"hsetnx":  {cmdHSetNX, 4, grow},
		"hget":    {cmdHGet, 3, 0},
		"hmget":   {cmdHMGet, -3, 0},
		"hexists": {cmdHExists, 3, 0},
		"hdel":    {cmdHDel, -3, write},
		"hlen":    {cmdHLen, 2, 0},
		"hgetall": {hashList(true, true), 2, 0},
		"hkeys":   {hashList(true, false), 2, 0},
		"hvals":   {hashList(false, true), 2, 0},
		"hincrby": {cmdHIncrBy, 4, grow},
		// lists and sets
		"lpush":     {push(true), -3, grow},
		"rpush":     {push(false), -3, grow},
		"lpop":      {pop(true), 2, write},
		"rpop":      {pop(false), 2, write},
		"llen":      {cmdLLen, 2, 0},
		"lrange":    {cmdLRange, 4, 0},
		"sadd":      {cmdSAdd, -3, grow},
		"srem":      {cmdSRem, -3, write},
		"scard":     {cmdSCard, 2, 0},
		"sismember": {cmdSIsMember, 3, 0},
		"smembers":  {cmdSMembers, 2, 0},
		// sorted sets
		"zadd":             {cmdZAdd, -4, grow},
		"zincrby":          {cmdZIncrBy, 4, grow},
		"zscore":           {cmdZScore, 3, 0},
		"zmscore":          {cmdZMScore, -3, 0},
		"zrem":             {cmdZRem, -3, write},
		"zcard":            {cmdZCard, 2, 0},
		"zcount":           {cmdZCount, 4, 0},
		"zrank":            {zrank(false), 3, 0},
		"zrevrank":         {zrank(true), 3, 0},
		"zrange":           {zrange(false, false, true), -4, 0},
		"zrevrange":        {zrange(false, true, false), -4, 0},
		"zrangebyscore":    {zrange(true, false, false), -4, 0},
		"zrevrangebyscore": {zrange(true, true, false), -4, 0},
		"zremrangebyscore": {zremrange(true), 4, write},
		"zremrangebyrank":  {zremrange(false), 4, write},
		"zpopmin":          {zpop(true), -2, write},
		"zpopmax":          {zpop(false), -2, write},
		// publish and subscribe
		"subscribe":   {cmdSubscribe, -2, always | flagNoScript | flagSub},
		"unsubscribe": {cmdUnsubscribe, -1, always | flagNoScript | flagSub},
		"publish":     {cmdPublish, 3, always},
		// scripts
		"eval":    {cmdEval, -3, flagNoScript | flagStale},
		"evalsha": {cmdEvalSHA, -3, flagNoScript | flagStale},
		"script":  {cmdScript, -2, flagNoScript},
	}
}
