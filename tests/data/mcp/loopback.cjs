// Servers of the tests listen on the loopback alone, also those that know of no such setting; the
// port that they really have is told on the standard error.
const net = require('net');
const listen = net.Server.prototype.listen;
net.Server.prototype.listen = function (port, ...rest) {
  if (typeof port !== 'number' && typeof port !== 'string') return listen.call(this, port, ...rest);
  this.once('listening', () => console.error(`loopback port ${this.address().port}`));
  const done = rest.filter((one) => typeof one === 'function');
  return listen.call(this, { port: Number(port), host: '127.0.0.1' }, ...done);
};
